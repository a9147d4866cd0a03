(function () {
'use strict';

// Everything that this page knows stands in the tables that `talc show` wrote: here numbers are looked up and
// elements lit, and no index of a convolution is worked out.
const data = JSON.parse(document.getElementById('talc').textContent);
const table = ref => data.tables[ref];
const $ = id => document.getElementById(id);
const still = matchMedia('(prefers-reduced-motion: reduce)');
const present = new URLSearchParams(location.search).has('present');

// Each direction is the same set of products x * w, seen from the array that they are summed into.
const DIRECTIONS = {
  forward: { name: 'forward', first: 'w', second: 'x', result: 'y', titles: { x: 'x', w: 'w', y: 'y' }, signs: ['∗', '='] },
  dx: { name: 'input gradient', first: 'w', second: 'y', result: 'x', titles: { x: 'dx', w: 'w', y: 'dy' }, signs: ['=', '∗'] },
  dw: { name: 'weight gradient', first: 'y', second: 'x', result: 'w', titles: { x: 'x', w: 'dw', y: 'dy' }, signs: ['=', '∗'] },
};
const KINDS = { o: 'y', x: 'x', w: 'w', c: 'p' };  // letters of the address, and what they select
const LETTERS = { y: 'o', x: 'x', w: 'w', p: 'c' };

const state = {
  variant: data.start, direction: data.direction, algorithm: 0, time: Infinity, paint: '', pinned: false,
  kind: 'y', index: 0, path: null, panel: 'tensors',
};
let variant;     // what is drawn: tables, products and names of one convolution
let nodes;       // nodes[kind][index]: all elements that stand for one of x, w, y, p, or a cell of the columns
let marked = []; // elements that are lit
let question = null;
let asked = 0;
let timer = 0;

// ---- Elements -----------------------------------------------------------------------------------

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value);
    }
  }
  node.append(...children);
  return node;
}

function shown(value) {
  return value === null || value === undefined ? '?' : String(Number(value.toPrecision(4))).replace('-', '−');
}

function register(kind, index, node) {
  (nodes[kind][index] = nodes[kind][index] || []).push(node);
  node.dataset.el = kind + ':' + index;
}

function title(kind) {
  return DIRECTIONS[state.direction].titles[kind];
}

function label(kind, index) {
  return kind === 'p' ? title('x') + '′[' + variant.names.p[index].join(',') + ']'
    : title(kind) + '[' + variant.names[kind][index].join(',') + ']';
}

function value(kind, index) {
  if (kind === 'p') {
    const x = variant.inside[index];
    return x < 0 ? 0 : value('x', x);
  }
  return variant.values[title(kind)][index];
}

// ---- The products of one variant -----------------------------------------------------------------

function load(number) {
  const raw = data.variants[number], way = raw.directions[state.direction], kinds = DIRECTIONS[state.direction];
  variant = { raw, way, values: {}, names: { x: [], w: [], y: [], p: [] }, by: { x: [], w: [], y: [], p: [], b: [] } };
  for (const name of ['x', 'w', 'y', 'dx', 'dw', 'dy']) {
    variant.values[name] = raw.values[name] === undefined ? [] : table(raw.values[name]);
  }
  variant.inside = table(raw.inside);
  for (const name of ['a', 'b', 'row', 'column']) {
    variant[name] = table(way[name]);
  }
  // The result in a row and a column is the sum over k of place k of that row of A times place k of that column of B.
  variant.row.forEach((row, result) => {
    for (let k = 0; k < way.inner; k++) {
      const b = variant.column[result] * way.inner + k, second = variant.b[b];
      const product = { k, b, p: -1, x: -1, w: -1, y: -1, [kinds.first]: variant.a[row * way.inner + k], [kinds.result]: result };
      if (second < 0) {
        continue; // dx sums over outputs that there are
      }
      product[kinds.second] = second;
      if (kinds.second === 'x') {
        product.p = second;
        product.x = variant.inside[second];
      }
      for (const kind of ['p', 'w', 'y', 'b', 'x']) {
        if (product[kind] >= 0) {
          (variant.by[kind][product[kind]] = variant.by[kind][product[kind]] || []).push(product);
        }
      }
    }
  });
}

function algorithms() {
  return variant.way.algorithms.map(table);
}

// Those that tell who computes what have tabs.
function algorithm() {
  const all = algorithms();
  return all.length ? all[Math.min(state.algorithm, all.length - 1)] : null;
}

// Of each element its owners, one or one a split: a number for each level.
function ownership(chosen) {
  if (!chosen.owners) {
    const tables = chosen.levels.map(level => table(level.of));
    chosen.owners = [];
    tables[0].forEach((_, at) => {
      if (at % chosen.copies === 0) {
        chosen.owners.push([]);
      }
      chosen.owners[chosen.owners.length - 1].push(tables.map(of => of[at]));
    });
  }
  return chosen;
}

// ---- Grids ----------------------------------------------------------------------------------------

// Cells of one array, [slice][row][column]; one of them can be reached by Tab, the others by arrows.
const places = new WeakMap();

function finishGrids(slices) {
  slices.forEach((rows, s) => rows.forEach((cells, r) => cells.forEach((node, c) => {
    places.set(node, { slices, s, r, c });
    node.tabIndex = s + r + c === 0 ? 0 : -1;
  })));
}

function cell(kind, index, attributes, text) {
  const node = make('div', { role: 'gridcell', class: 'cell ' + (attributes.class || ''), id: attributes.id || null }, text);
  node.setAttribute('aria-label', attributes.label);
  register(kind, index, node);
  return node;
}

function grid(name, rows, columns, make_cell, numbers) {
  const node = make('div', { role: 'grid', class: 'grid', 'aria-label': name, style: '--n:' + (columns + (numbers ? 1 : 0)) });
  const cells = [];
  if (numbers) {
    const heads = make('div', { class: 'row', 'aria-hidden': 'true' }, make('span', { class: 'num' }));
    for (let c = 0; c < columns; c++) {
      heads.append(make('span', { class: 'num' }, numbers.columns ? String(c) : ''));
    }
    node.append(heads);
  }
  for (let r = 0; r < rows; r++) {
    const line = make('div', { role: 'row', class: 'row' });
    if (numbers) {
      line.append(make('span', { class: 'num', 'aria-hidden': 'true' }, numbers.rows ? String(r) : ''));
    }
    cells.push([]);
    for (let c = 0; c < columns; c++) {
      const made = make_cell(r, c);
      cells[r].push(made);
      line.append(made);
    }
    node.append(line);
  }
  return { node, cells };
}

function widest(values) {
  return values.reduce((most, v) => Math.max(most, shown(v).length), 1);
}

// The slices of x', w or y, one after another as they stand in memory.
function drawArray(box, kind) {
  const target = kind === 'p' ? 'x' : kind, shape = variant.raw.shapes[kind], slices = [];
  const [top, left] = kind === 'p' ? [variant.raw.problem.pad_top, variant.raw.problem.pad_left] : [0, 0];
  const values = variant.values[title(target)];
  const image = variant.raw.shapes.x;
  const padded = kind === 'p' && variant.inside.length > values.length && state.direction !== 'dx';
  box.replaceChildren(make('h3', {}, title(target) + (padded ? '′' : ''),
    make('small', {}, ' [' + variant.raw.shapes[target].join(', ') + ']' + (padded ? ' and its padding' : ''))));
  box.style.setProperty('--digits', widest(values));
  const holder = make('div', { class: 'slices', style: '--across:' + (kind === 'w' ? shape[1] : Math.ceil(Math.sqrt(shape[0] * shape[1]))) });
  let index = 0;
  for (let n = 0; n < shape[0]; n++) {
    for (let c = 0; c < shape[1]; c++) {
      const caption = title(target) + '[' + n + ', ' + c + ']';
      const made = grid(caption, shape[2], shape[3], (h, w) => {
        const at = [n, c, h - top, w - left];
        const outside = kind === 'p' && (at[2] < 0 || at[3] < 0 || at[2] >= image[2] || at[3] >= image[3]);
        const here = index++, x = kind === 'p' ? variant.inside[here] : here;
        variant.names[kind].push(at);
        if (kind === 'p' && !outside) {
          variant.names.x[x] = at;
        }
        const lost = outside && (x < 0 || state.direction === 'dx');
        const text = lost ? '.' : shown(values[x]);
        const name = target + '-' + at.join('-');
        const node = cell(kind, here, {
          id: outside ? 'p-' + here : name, class: 'of-' + target + (outside ? ' pad' : ''),
          label: outside ? 'padding ' + at.join(',') : title(target) + ' ' + at.join(',') + ' = ' + text,
        }, text);
        if (kind === 'p' && !outside) {
          register('x', x, node);
        }
        return node;
      });
      slices.push(made.cells);
      holder.append(make('figure', {}, make('figcaption', {}, caption), made.node));
    }
  }
  box.append(make('div', { class: 'scroll' }, holder));
  finishGrids(slices);
}

// A [rows, K] below and beside B [K, columns], and the result where they cross; one for each group (and image).
function drawProduct() {
  const box = $('product-box'), { way } = variant, kinds = DIRECTIONS[state.direction];
  const values = name => variant.values[title(name)];
  box.replaceChildren();
  $('product-note').textContent = {
    forward: 'Every window of x′ is a column (im2col), every output channel a row of w: y = w · columns. '
      + 'A column’s number is its output’s place in the plane, a row’s number its place in the kernel.',
    dx: 'A column is a pixel: the outputs that read it, one place for each output channel and place of the kernel, empty where no output did. '
      + 'A row of w has the weights that they used: dx = w · columns.',
    dw: 'A row is an output channel of dy, a column a place of the kernel: all pixels that it met, in the order of the outputs. '
      + 'It is the matrix of the forward pass with rows and columns exchanged: dw = dy · columns.',
  }[state.direction];
  const digits = { b: Math.max(widest(values(kinds.second)), widest(values(kinds.result))), a: widest(values(kinds.first)) };
  const at = new Map();
  variant.row.forEach((row, result) => at.set(row + ':' + variant.column[result], result));
  for (let n = 0; n < way.products; n++) {
    const r0 = n * way.rows, j0 = n * way.columns, name = way.products === 1 ? '' : ', from ' + label(kinds.result, at.get(r0 + ':' + j0)) + ' on';
    const plain = (kind, index) => index < 0 ? make('div', { role: 'gridcell', class: 'cell pad', 'aria-label': 'never read' }, '.') : cell(kind, index, {
      class: 'of-' + kind, label: title(kind) + ' ' + variant.names[kind][index].join(',') + ' = ' + shown(values(kind)[index]) }, shown(values(kind)[index]));
    const numbers = { rows: true, columns: true };
    const B = grid('columns' + name, way.inner, way.columns, (k, j) => {
      const b = (j0 + j) * way.inner + k, second = variant.b[b];
      const index = kinds.second === 'x' ? variant.inside[second] : second;
      const what = index < 0 ? kinds.second === 'x' ? 'padding' : 'no output' : title(kinds.second) + ' ' + variant.names[kinds.second][index].join(',');
      return cell('b', b, { id: 'b-' + k + '-' + (j0 + j), class: 'of-' + kinds.second + (index < 0 ? ' pad' : ''),
        label: 'columns, row ' + k + ', column ' + j + ': ' + what }, index < 0 ? '.' : shown(values(kinds.second)[index]));
    }, numbers);
    const A = grid(title(kinds.first) + name, way.rows, way.inner, (r, k) => plain(kinds.first, variant.a[(r0 + r) * way.inner + k]), numbers);
    const C = grid(title(kinds.result) + name, way.rows, way.columns, (r, j) => plain(kinds.result, at.get((r0 + r) + ':' + (j0 + j))), numbers);
    [[B, digits.b], [A, digits.a], [C, digits.b]].forEach(([made, number]) => {
      finishGrids([made.cells]);
      made.node.style.setProperty('--digits', number);
    });
    const titled = (text, rows, columns, node) => make('div', {}, make('h3', {}, text, make('small', {}, ' [' + rows + ', ' + columns + ']')), node);
    box.append(make('div', { class: 'matrices' }, make('div', { class: 'corner note' }, way.products === 1 ? '' : 'product ' + n + ' of ' + way.products + name),
      titled('columns', way.inner, way.columns, B.node), titled(title(kinds.first), way.rows, way.inner, A.node),
      titled(title(kinds.result), way.rows, way.columns, C.node)));
  }
}

// Nested boxes: all results that have the same block, in it the same warp, and so on.
function drawOwners() {
  const box = $('owners'), chosen = algorithm(), kind = DIRECTIONS[state.direction].result;
  (nodes.owner || []).forEach(node => node.remove());
  nodes.owner = [];
  nodes.boxes = new Map();
  for (const list of nodes[kind]) {
    if (list) {
      list.splice(0, list.length, ...list.filter(node => !node.classList.contains('leaf')));
    }
  }
  box.replaceChildren();
  if (!chosen) {
    return;
  }
  const { levels, owners } = ownership(chosen);
  const entries = owners.flatMap((all, index) => all.map(path => ({ index, path })));
  entries.sort((a, b) => {
    const i = a.path.findIndex((number, level) => number !== b.path[level]);
    return i < 0 ? a.index - b.index : a.path[i] - b.path[i];
  });
  const leaves = [];
  for (const { index, path } of entries) {
    let parent = box, key = '';
    path.slice(0, -1).forEach((number, level) => {
      key += (level ? '/' : '') + number;
      let found = nodes.boxes.get(key);
      if (!found) {
        const { name, kind: sort } = levels[level];
        const inner = make('div', { class: 'inside' });
        const node = make('div', { class: 'box', 'data-kind': sort, 'data-box': key, 'data-level': level, role: 'group', 'aria-label': name + ' ' + number },
          make('span', { class: 'head' }, make('b', {}, name), ' ' + number), inner);
        parent.append(node);
        found = { node, inner, products: [], results: [] };
        nodes.boxes.set(key, found);
      }
      found.results.push(index);
      parent = found.inner;
    });
    const last = levels[path.length - 1];
    const name = variant.names[kind][index].join(',');
    const leaf = make('div', { class: 'cell leaf of-' + kind, role: 'gridcell', title: last.name + ' ' + path[path.length - 1] },
      make('small', {}, String(path[path.length - 1])), name);
    leaf.setAttribute('aria-label', levels.map((level, i) => level.name + ' ' + path[i]).join(', ') + ': ' + label(kind, index));
    leaf.dataset.path = key;
    register(kind, index, leaf);
    parent.append(leaf);
    leaves.push(leaf);
  }
  // Leaves are one line for the arrow keys; rows of the tree are wherever they wrap.
  finishGrids([[leaves]]);
  box.querySelectorAll('.inside').forEach(inner => {
    if (inner.firstElementChild.classList.contains('leaf')) {
      inner.classList.add('leaves');
    }
  });
}

// ---- What is chosen above the panels ---------------------------------------------------------------

function choice(box, options, current, choose) {
  const radios = options.map(({ key, text }) => {
    const button = make('button', { type: 'button', role: 'radio', 'aria-checked': String(key === current), tabindex: key === current ? 0 : -1, 'data-key': key }, text);
    button.addEventListener('click', () => choose(key));
    return button;
  });
  box.replaceChildren(...radios);
}

function choiceKeys(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const all = [...event.currentTarget.children], at = all.indexOf(document.activeElement);
  if (step && at >= 0) {
    event.preventDefault();
    event.stopPropagation();
    const key = all[(at + step + all.length) % all.length].dataset.key;
    all[(at + step + all.length) % all.length].click();
    [...event.currentTarget.children].find(node => node.dataset.key === key).focus();
  }
}

function drawBar() {
  choice($('directions'), Object.entries(DIRECTIONS).filter(([key]) => variant.raw.directions[key]).map(([key, { name }]) => ({ key, text: name })), state.direction, key => {
    state.direction = key;
    state.algorithm = 0;
    state.paint = '';
    state.kind = DIRECTIONS[key].result;
    state.index = variant.raw.directions[key].first;
    draw();
  });
  const choices = data.variants[state.variant].choice;
  $('sliders').replaceChildren(...data.controls.map(({ name, values, missing }, c) => {
    const id = 'slider-' + name, at = values.indexOf(choices[c]);
    const input = make('input', { type: 'range', id, min: 0, max: values.length - 1, value: at, step: 1, 'aria-valuetext': name + ' ' + choices[c] });
    const output = make('output', { for: id }, String(choices[c]));
    if (values.length < 2) {
      input.disabled = true;
      input.title = missing || '';
    }
    input.addEventListener('input', () => {
      const wanted = choices.map((old, i) => i === c ? values[Number(input.value)] : old);
      const next = data.variants.findIndex(v => v.choice.every((number, i) => number === wanted[i]));
      if (next < 0 || data.variants[next].absent) {
        input.value = at;
        say(next < 0 ? 'This page has no data for that.' : data.variants[next].absent);
        return;
      }
      choose_variant(next);
      $(id).focus();
    });
    return make('label', { for: id, class: 'slider' }, make('span', {}, name), input, output);
  }));
}

function choose_variant(next) {
  const at = variant.names[state.kind][state.index];
  state.variant = next;
  load(next);
  state.time = Infinity;
  const shape = variant.raw.shapes[state.kind];
  const fits = at && at.every((number, i) => number >= 0 && number < shape[i]);
  draw(fits ? at : null);
}

function drawTabs() {
  const box = $('tabs'), all = algorithms();
  box.replaceChildren(...all.map((a, i) => {
    const chosen = a === algorithm();
    const tab = make('button', {
      type: 'button', role: 'tab', id: 'tab-' + i, 'data-key': i, 'aria-selected': String(chosen), 'aria-controls': 'owners',
      tabindex: chosen ? 0 : -1,
    }, make('small', {}, a.device + ' '), a.name);
    tab.addEventListener('click', () => {
      state.algorithm = i;
      state.paint = '';
      drawTabs();
      drawOwners();
      drawPaint();
      light();
      $('tab-' + i).focus();
    });
    return tab;
  }));
  $('who-note').textContent = algorithm() ? 'Planned for ' + algorithm().target + ': ' + algorithm().plan : 'No algorithm says yet who computes what here.';
  const others = table(variant.way.others);
  $('others').hidden = !others.length;
  $('others').replaceChildren(make('summary', {}, others.length + ' algorithms are not drawn'), make('ul', {}, ...others.map(text => make('li', {}, text))));
}

// What the cells of the result show: their values, or who computes them.
function drawPaint() {
  const chosen = algorithm(), kind = DIRECTIONS[state.direction].result;
  const { levels, owners } = chosen ? ownership(chosen) : { levels: [] };
  choice($('paint'), [{ key: '', text: 'its value' }, ...levels.map(({ name }) => ({ key: name, text: name }))], state.paint, key => {
    state.paint = key;
    drawPaint();
    light();
  });
  $('paint-line').hidden = !levels.length;
  $('paint-name').textContent = 'A cell of ' + title(kind) + ' shows:';
  const painted = levels.findIndex(level => level.name === state.paint);
  nodes[kind].forEach((list, index) => list.forEach(node => {
    if (node.classList.contains('leaf') || node.classList.contains('pad')) {
      return;
    }
    const number = painted >= 0 ? owners[index].map(path => path[painted]).filter((n, i, all) => all.indexOf(n) === i) : null;
    node.textContent = number ? number.join('+') : shown(value(kind, index));
    if (number) {
      node.dataset.tint = number[0] % 6;
    } else {
      delete node.dataset.tint;
    }
  }));
}

// ---- Lighting --------------------------------------------------------------------------------------

function mark(node, what) {
  node.dataset.mark = what;
  marked.push(node);
}

function markAll(kind, index, what, when) {
  for (const node of nodes[kind][index] || []) {
    if (node.classList.contains('leaf')) {
      mark(node, node.dataset.mark === 'self' ? 'self' : 'owner');
      continue;
    }
    mark(node, what);
    if (when) {
      node.dataset.when = node.dataset.when === 'now' ? 'now' : when;
    }
  }
}

// The products of what is selected: of one element, or of all results in a box of owners.
function productsOf() {
  if (state.kind === 'box') {
    const kind = DIRECTIONS[state.direction].result, found = nodes.boxes.get(state.path);
    return found ? found.results.flatMap(index => variant.by[kind][index] || []) : [];
  }
  return variant.by[state.kind][state.index] || [];
}

function isResult() {
  return state.kind === DIRECTIONS[state.direction].result;
}

function light() {
  for (const node of marked) {
    delete node.dataset.mark;
    delete node.dataset.when;
  }
  marked = [];
  const products = productsOf(), result = DIRECTIONS[state.direction].result;
  const done = Math.min(state.time, products.length);
  const lit = { p: new Map(), x: new Map(), w: new Map(), y: new Map(), b: new Map() };
  products.forEach((product, i) => {
    const when = i >= done ? 'late' : i === done - 1 && state.time !== Infinity ? 'now' : '';
    for (const kind of ['p', 'x', 'w', 'y', 'b']) {
      if (product[kind] < 0) {
        continue;
      }
      const before = lit[kind].get(product[kind]);
      if (before === undefined || before === 'late' || when === 'now') {
        lit[kind].set(product[kind], when);
      }
    }
  });
  lit.p.forEach((when, p) => markAll('p', p, 'window', when));
  lit.x.forEach((when, x) => markAll('x', x, 'window', when));
  lit.w.forEach((when, w) => markAll('w', w, 'window', when));
  lit.y.forEach((when, y) => markAll('y', y, 'window', when));
  lit.b.forEach((when, b) => markAll('b', b, 'column', when));
  if (state.kind !== 'box') {
    for (const node of nodes[state.kind][state.index] || []) {
      mark(node, 'self');
      delete node.dataset.when;
    }
  }
  // The boxes around every owner that is lit.
  if (state.kind === 'box' && nodes.boxes.has(state.path)) {
    mark(nodes.boxes.get(state.path).node, 'self');
  }
  const lights = new Set();
  for (const node of marked) {
    if (node.classList.contains('leaf')) {
      for (let up = node.closest('.box'); up; up = up.parentElement.closest('.box')) {
        lights.add(up);
      }
    }
  }
  reveal();
  lights.forEach(node => {
    if (node.dataset.mark !== 'self') {
      mark(node, 'owner');
    }
  });
  drawSum(products, done, result);
  drawLoops(products, done);
  drawCommands();
  say(sentence(products, result));
  $('pin').setAttribute('aria-pressed', String(state.pinned));
  document.body.classList.toggle('pinned', state.pinned);
  remember();
}

// Scrolls the columns of the matrix sideways to what is lit, unless the reader is there.
function reveal() {
  const box = $('product-box'), lit = box.querySelector('[data-mark=column]');
  if (lit && !box.matches(':hover, :focus-within')) {
    const at = lit.getBoundingClientRect().left - box.getBoundingClientRect().left;
    if (at < 0 || at > box.clientWidth - 40) {
      box.scrollLeft += at - box.clientWidth / 2;
    }
  }
}

function owners_of(index) {
  const chosen = algorithm();
  return chosen ? ownership(chosen).owners[index].map(path => path.map((number, i) => chosen.levels[i].name + ' ' + number).join(', ')) : [];
}

function sentence(products, result) {
  const count = (number, one, many) => number + ' ' + (number === 1 ? one : many || one + 's');
  const targets = new Set(products.map(product => product[result]).filter(index => index >= 0));
  if (state.kind === 'box') {
    const found = nodes.boxes.get(state.path), { first, second } = DIRECTIONS[state.direction];
    return found ? found.node.getAttribute('aria-label') + ' computes ' + count(found.results.length, 'result')
      + ' by ' + count(products.length, 'product') + '; it needs ' + [first, second].map(kind => count(
        new Set(products.map(product => product[kind]).filter(index => index >= 0)).size, 'element') + ' of ' + title(kind)).join(' and ') + '.' : '';
  }
  const name = label(state.kind, state.index);
  if (isResult()) {
    const padding = products.filter(product => product.x < 0).length, who = owners_of(state.index);
    return name + ' = ' + hideable(shown(value(state.kind, state.index))) + ', the sum of ' + count(products.length, 'product')
      + (padding ? ', ' + padding + ' of them with padding' : '') + (state.kind === 'y' ? '; column ' + variant.column[state.index] % variant.way.columns + ' of the matrix' : '')
      + (who.length && !(question && question.kind === 'owner') ? '. ' + algorithm().device + ' ' + algorithm().name + ': ' + who.join('; ') : '') + '.';
  }
  const goal = title(result);
  return name + (state.kind === 'p' && variant.inside[state.index] < 0 ? ', padding,' : ' = ' + shown(value(state.kind, state.index)))
    + ' is in ' + count(products.length, 'product') + ', of ' + count(targets.size, 'element') + ' of ' + goal + '.';
}

function hideable(text) {
  return question && question.kind === 'value' && isResult() && state.index === question.index ? '?' : text;
}

function say(text) {
  $('said').textContent = text;
}

// ---- The sum, the loops, the counters ----------------------------------------------------------------

const SHOWN_TERMS = 600;

function operands(product) {
  const x = { kind: 'p', index: product.p, text: product.x < 0 ? 'padding' : label('x', product.x), value: product.x < 0 ? 0 : variant.values[title('x')][product.x] };
  const w = { kind: 'w', index: product.w, text: label('w', product.w), value: variant.values[title('w')][product.w] };
  const y = { kind: 'y', index: product.y, text: label('y', product.y), value: variant.values[title('y')][product.y] };
  return { forward: [x, w, y], dx: [y, w, x], dw: [x, y, w] }[state.direction];
}

function drawSum(products, done, result) {
  const rows = [], whole = isResult();
  let sum = 0;
  products.slice(0, SHOWN_TERMS).forEach((product, i) => {
    const [a, b, goal] = operands(product), term = a.value * b.value;
    sum += term;
    const row = make('tr', { 'data-term': i, class: i >= done ? 'late' : i === done - 1 && state.time !== Infinity ? 'now' : '' },
      make('td', {}, String(whole ? product.k : i)),
      make('td', {}, a.text), make('td', { class: 'v' }, product.x < 0 && a.kind === 'p' ? '.' : shown(a.value)),
      make('td', {}, b.text), make('td', { class: 'v' }, shown(b.value)), make('td', { class: 'v' }, shown(term)),
      whole ? make('td', { class: 'v s' }, i >= done || hideable('') ? '' : shown(sum)) : make('td', {}, goal.text));
    rows.push(row);
  });
  const [a, b] = products.length ? operands(products[0]) : [{ kind: 'p' }, { kind: 'w' }];
  const head = make('tr', {}, make('th', { scope: 'col' }, whole ? 'k' : '#'), make('th', { colspan: 2, scope: 'colgroup' }, title(a.kind === 'p' ? 'x' : a.kind)),
    make('th', { colspan: 2, scope: 'colgroup' }, title(b.kind)), make('th', { scope: 'col', class: 'v' }, 'product'), make('th', { scope: 'col', class: whole ? 'v' : '' }, whole ? 'sum' : 'goes to'));
  if (products.length > SHOWN_TERMS) {
    rows.push(make('tr', {}, make('td', { colspan: 7 }, '… and ' + (products.length - SHOWN_TERMS) + ' more')));
  }
  $('sum-table').replaceChildren(make('thead', {}, head), make('tbody', {}, ...rows));
  const line = $('sum-line');
  line.replaceChildren();
  if (whole && products.length <= 64) {
    line.append(make('b', {}, label(state.kind, state.index)), ' = ');
    products.forEach((product, i) => {
      const [p, q] = operands(product);
      line.append(i ? ' + ' : '', make('span', { class: 'term' + (i >= done ? ' late' : i === done - 1 && state.time !== Infinity ? ' now' : ''), 'data-term': i },
        (product.x < 0 && p.kind === 'p' ? '.' : shown(p.value)) + '·' + (q.value < 0 ? '(' + shown(q.value) + ')' : shown(q.value))));
    });
    line.append(' = ', make('b', { class: 'total' }, hideable(shown(value(state.kind, state.index)))));
  } else {
    line.append(whole ? make('b', {}, label(state.kind, state.index) + ' = ' + hideable(shown(value(state.kind, state.index))))
      : make('span', {}, 'Every product that has it, and the element that it is added to:'));
  }
  const now = $('sum-table').querySelector('tr.now');
  if (now) {
    const holder = $('sum-scroll');
    holder.scrollTop = Math.max(0, now.offsetTop - holder.clientHeight / 2);
  }
}

function drawLoops(products, done) {
  const slider = $('time'), current = products[Math.max(0, done - 1)], chosen = algorithm();
  slider.max = products.length;
  slider.value = done;
  $('time-text').textContent = done + ' of ' + products.length;
  slider.setAttribute('aria-valuetext', done + ' of ' + products.length + ' products added');
  $('play').disabled = still.matches;
  $('play').title = still.matches ? 'Your system asks for reduced motion: step with the slider' : '';
  const { levels, owners } = chosen ? ownership(chosen) : { levels: [], owners: [] };
  const known = isResult() && !(question && question.kind === 'owner') && owners[state.index] && owners[state.index].length === 1;
  const level = ({ name, kind, extent }) => ({ name, kind, extent, at: known ? owners[state.index][0][levels.findIndex(l => l.name === name)] : '' });
  const inner = ['lane', 'vector', 'register'];
  const nest = [
    ...levels.filter(({ kind }) => !inner.includes(kind) && kind !== 'split').map(level),
    ...(levels.length ? chosen.loops : variant.way.loops).filter(({ extent }) => extent > 1).map(({ name, kind, extent, of }) => ({ name, kind: kind === 'split' ? kind : 'sequential', extent, at: current ? table(of)[current.k] : '' })),
    ...levels.filter(({ kind }) => inner.includes(kind)).map(level),
  ];
  const word = kind => kind === 'sequential' || kind === 'sequence' ? 'for ' : 'parallel ';
  $('nest').replaceChildren(...nest.map(({ name, kind, extent, at: number }, depth) => make('li', { 'data-kind': kind, style: '--depth:' + depth },
    make('code', {}, word(kind) + name + ' < ' + extent), make('span', { class: 'kind' }, kind),
    make('span', { class: 'at' }, number === '' || number === undefined ? '' : name + ' = ' + number))),
  make('li', { class: 'body', style: '--depth:' + nest.length }, make('code', {}, {
    forward: 'y += x′ · w', dx: 'dx += dy · w', dw: 'dw += x′ · dy' }[state.direction]), current && done ? (() => {
    const [a, b] = operands(current);
    return a.text + ' · ' + b.text + ' = ' + shown(a.value) + ' · ' + shown(b.value);
  })() : ''));
  const rows = [
    ['products of what is selected', done, products.length, ''],
    ...(chosen ? table(chosen.counted).map(([name, unit], i) => [unit ? name + ', ' + unit : name, '', chosen.traffic[i][0], chosen.traffic[i][1] || ''])
      : [['products in all (FMAs)', '', variant.way.fmas, '']]),
  ];
  $('counters').replaceChildren(
    make('thead', {}, make('tr', {}, ...['', 'so far', 'in all', 'at least'].map(text => make('th', { scope: 'col', class: 'v' }, text)))),
    make('tbody', {}, ...rows.map(([name, so, all, least]) => make('tr', {}, make('th', { scope: 'row' }, name),
      ...[so, all, least].map(number => make('td', { class: 'v' }, number === '' ? '' : Number(number).toLocaleString('en')))))));
}

// The same by other means; @ stands for the indices of an element.
function commands() {
  const p = variant.raw.problem, { text } = variant.way;
  const even = p.pad_top === p.pad_bottom && p.pad_left === p.pad_right;
  const x = even ? 'x' : `torch.nn.functional.pad(x, (${p.pad_left}, ${p.pad_right}, ${p.pad_top}, ${p.pad_bottom}))`;
  const options = `stride=(${p.stride_h}, ${p.stride_w}), padding=${even ? `(${p.pad_top}, ${p.pad_left})` : 0}, `
    + `dilation=(${p.dilation_h}, ${p.dilation_w}), groups=${p.groups})${even || state.direction !== 'dx' ? '' : `[:, :, ${p.pad_top}:, ${p.pad_left}:]`}[@]`;
  const end = even ? '' : `, .padding_end = { ${p.pad_bottom || 'TALC_ZERO'}, ${p.pad_right || 'TALC_ZERO'} }`;
  const gradient = operand => `talc_conv2d_problem p; talc_conv2d_problem_parse("${text}", &p); talc_conv2d_gradient(&p, ${operand}, dy, NULL)`;
  return [['trace', `talc trace ${text} @`], ['choice', `talc explain ${text}`], ['PyTorch', {
    forward: `torch.nn.functional.conv2d(${x}, w, `, dx: `torch.nn.grad.conv2d_input(${x}.shape, w, dy, `, dw: `torch.nn.grad.conv2d_weight(${x}, w.shape, dy, `,
  }[state.direction] + options], ['C', {
    forward: `talc_conv2d(x, w, NULL, &(talc_conv2d_options){ .stride = { ${p.stride_h}, ${p.stride_w} }, .padding = { ${p.pad_top}, ${p.pad_left} }${end}, `
      + `.dilation = { ${p.dilation_h}, ${p.dilation_w} }, .groups = ${p.groups} })`,
    dx: gradient('w'), dw: gradient('x'),
  }[state.direction]]];
}

function formula() {
  const p = variant.raw.problem, times = (factor, name) => (factor === 1 ? '' : factor + '·') + name;
  const axis = (o, stride, k, dilation, pad) => times(stride, o) + ' + ' + times(dilation, k) + (pad ? ' − ' + pad : '');
  const h = axis('oh', p.stride_h, 'kh', p.dilation_h, p.pad_top), w = axis('ow', p.stride_w, 'kw', p.dilation_w, p.pad_left);
  const x = `x′[n, ${p.groups === 1 ? '' : 'first of the group + '}ic, ${h}, ${w}]`;
  return {
    forward: `y[n, oc, oh, ow] = Σ ${x} · w[oc, ic, kh, kw] over ic, kh, kw`,
    dx: `dx[n, ic, ih, iw] = Σ dy[n, oc, oh, ow] · w[oc, ic, kh, kw] over oc, kh, kw, where ${h} = ih and ${w} = iw`,
    dw: `dw[oc, ic, kh, kw] = Σ ${x} · dy[n, oc, oh, ow] over n, oh, ow`,
  }[state.direction];
}

function drawCommands() {
  const kind = state.kind === 'box' ? null : state.kind === 'p' ? null : state.kind;
  const at = kind && isResult() ? variant.names[kind][state.index] : variant.names[DIRECTIONS[state.direction].result][0];
  const lines = commands().map(([name, text]) => [name, text.replaceAll('@', at.join(name === 'PyTorch' ? ', ' : ','))]);
  $('commands').replaceChildren(...lines.map(([name, text]) => make('div', { class: 'command' }, make('span', { class: 'kind' }, name), make('code', {}, text))));
}

// ---- Pointing ---------------------------------------------------------------------------------------

function select(kind, index) {
  if (kind === 'p' && variant.inside[index] >= 0 && !nodes.p[index][0].classList.contains('pad')) {
    kind = 'x';
    index = variant.inside[index];
  } else if (kind === 'b') {
    const second = variant.b[index], kind_of = DIRECTIONS[state.direction].second;
    return second < 0 ? undefined : select(kind_of === 'x' ? 'p' : kind_of, second);
  }
  if (state.kind !== kind || state.index !== index) {
    state.kind = kind;
    state.index = index;
    state.path = null;
    state.time = Infinity;
    stop();
    light();
  }
}

function selectBox(path) {
  if (state.kind !== 'box' || state.path !== path) {
    state.kind = 'box';
    state.path = path;
    state.time = Infinity;
    stop();
    light();
  }
}

function pointed(target) {
  const node = target.closest && target.closest('[data-el]');
  if (node) {
    const [kind, index] = node.dataset.el.split(':');
    return () => select(kind, Number(index));
  }
  const box = target.closest && target.closest('.box');
  return box ? () => selectBox(box.dataset.box) : null;
}

function onPoint(event) {
  const go = pointed(event.target);
  if (go && !state.pinned && !question) {
    go();
  }
}

function onClick(event) {
  const term = event.target.closest('[data-term]');
  if (term) {
    setTime(Number(term.dataset.term) + 1);
    return;
  }
  const go = pointed(event.target);
  if (!go) {
    return;
  }
  if (question) {
    answer(event.target);
    return;
  }
  const before = state.kind + state.index + state.path, was = state.pinned;
  state.pinned = false;
  go();
  state.pinned = !(was && before === state.kind + state.index + state.path);
  light();
}

function move(event) {
  const place = places.get(event.target);
  if (!place) {
    return false;
  }
  const { slices, s, r, c } = place, rows = slices[s], row = rows[r];
  const to = {
    ArrowLeft: () => row[c - 1], ArrowRight: () => row[c + 1], ArrowUp: () => rows[r - 1] && rows[r - 1][c],
    ArrowDown: () => rows[r + 1] && rows[r + 1][c], Home: () => row[0], End: () => row[row.length - 1],
    PageDown: () => slices[s + 1] && slices[s + 1][r][c], PageUp: () => slices[s - 1] && slices[s - 1][r][c],
  }[event.key];
  if (!to) {
    return false;
  }
  event.preventDefault();
  const next = to();
  if (next) {
    slices.forEach(all => all.forEach(line => line.forEach(node => { node.tabIndex = -1; })));
    next.tabIndex = 0;
    next.focus();
  }
  return true;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const target = event.target, typing = target.tagName === 'INPUT', pressing = target.tagName === 'BUTTON';
  if (event.key === 'Escape') {
    if (question) {
      ask(null);
    }
    state.pinned = false;
    stop();
    light();
  } else if (!typing && move(event)) {
    return;
  } else if (event.key === 'Enter' && places.has(target)) {
    event.preventDefault();
    target.click();
  } else if (event.key === ' ' && !pressing && !typing) {
    event.preventDefault();
    play();
  } else if ((event.key === ',' || event.key === '.') && !(typing && target.type !== 'range')) {
    step(event.key === ',' ? -1 : 1);
  } else if (present && (event.key === '[' || event.key === ']')) {
    const all = [...document.querySelectorAll('.panel')].map(node => node.id);
    showPanel(all[(all.indexOf(state.panel) + (event.key === ']' ? 1 : all.length - 1)) % all.length]);
  } else if (!typing && !pressing && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key) && target === document.body) {
    event.preventDefault();
    if (event.key === 'Home' || event.key === 'End') {
      setTime(event.key === 'Home' ? 0 : Infinity);
    } else {
      step(event.key === 'ArrowLeft' ? -1 : 1);
    }
  }
}

// ---- Time ---------------------------------------------------------------------------------------------

function setTime(time) {
  state.time = time >= productsOf().length ? Infinity : Math.max(0, time);
  light();
}

function step(by) {
  setTime(Math.min(state.time, productsOf().length) + by);
}

function stop() {
  clearInterval(timer);
  timer = 0;
  $('play').textContent = 'Play';
}

function play() {
  if (timer || still.matches) {
    stop();
    return;
  }
  if (state.time === Infinity) {
    setTime(0);
  }
  $('play').textContent = 'Stop';
  timer = setInterval(() => {
    step(1);
    if (state.time === Infinity) {
      stop();
    }
  }, Math.max(40, Math.min(500, 9000 / Math.max(1, productsOf().length))));
}

// ---- Predicting -----------------------------------------------------------------------------------------

function ask(next) {
  question = next;
  $('predict').setAttribute('aria-pressed', String(Boolean(next)));
  document.body.classList.toggle('asking', Boolean(next));
  const box = $('question');
  box.hidden = !next;
  delete box.dataset.right;
  if (!next) {
    box.replaceChildren();
    drawPaint();
    light();
    return;
  }
  state.pinned = true;
  state.time = Infinity;
  state.paint = '';
  state.kind = DIRECTIONS[state.direction].result;
  state.index = next.index;
  const verdict = make('p', { id: 'verdict', role: 'status' });
  const more = make('button', { type: 'button', id: 'next-question' }, 'Another');
  more.addEventListener('click', () => ask(makeQuestion()));
  const name = label(state.kind, next.index);
  box.replaceChildren(make('p', {}, {
    output: 'The operands of one element of ' + title(state.kind) + ' are lit. Which element is it? Click it.',
    owner: 'Who computes ' + name + ' in ' + (algorithm() || {}).name + '? Click its place in “Who computes it”.',
    value: 'What is ' + name + '? Its operands are lit.',
  }[next.kind]));
  if (next.kind === 'value') {
    const input = make('input', { type: 'text', inputmode: 'numeric', id: 'guess', 'aria-label': 'Your value', size: 6, autocomplete: 'off' });
    const form = make('form', {}, input, make('button', {}, 'Check'));
    form.addEventListener('submit', event => {
      event.preventDefault();
      const right = value(state.kind, next.index);
      judge(Number(input.value.trim().replace('−', '-')) === right && input.value.trim() !== '', 'it is ' + shown(right));
    });
    box.append(form);
  }
  box.append(verdict, more);
  drawPaint();
  light();
  hide();
}

// What a question asks for is not to be seen.
function hide() {
  const kind = DIRECTIONS[state.direction].result;
  for (const node of nodes[kind][question.index] || []) {
    const leaf = node.classList.contains('leaf');
    if (question.kind === 'value' && !leaf) {
      node.textContent = '?';
    }
    if (question.kind === 'output' || question.kind === 'owner' && leaf) {
      delete node.dataset.mark;
    }
  }
  nodes.boxes.forEach(({ node }) => { delete node.dataset.mark; });
  if (question.kind === 'output') {
    nodes.b.forEach(list => list.forEach(node => { delete node.dataset.mark; }));
    $('sum-line').replaceChildren('?');
    $('sum-table').replaceChildren();
    say('Which element is it?');
  }
}

function makeQuestion() {
  const kinds = ['output', 'value', ...(algorithm() ? ['owner'] : [])];
  const count = variant.by[DIRECTIONS[state.direction].result].length;
  asked++;
  return { kind: kinds[asked % kinds.length], index: (asked * 7919 + 13) % count };
}

function answer(target) {
  const node = target.closest('[data-el]'), kind = DIRECTIONS[state.direction].result;
  if (!node || question.kind === 'value' || question.kind === 'owner' && !node.classList.contains('leaf')) {
    return;
  }
  const right = (nodes[kind][question.index] || []).includes(node);
  judge(right, right ? '' : 'that is ' + (node.getAttribute('aria-label') || 'another') + '; look again, or press Esc');
}

function judge(right, why) {
  $('verdict').textContent = right ? '✓ Right.' : '✗ Not so: ' + why + '.';
  $('question').dataset.right = String(right);
  if (right) {
    const { index, kind } = question;
    question = { kind: 'done', index };
    drawPaint();
    light();
    if (kind === 'value') {
      say(sentence(productsOf(), DIRECTIONS[state.direction].result));
    }
  }
}

// ---- The address ------------------------------------------------------------------------------------------

let writing = 0;

function address() {
  const parts = [], choices = data.variants[state.variant].choice;
  if (state.kind === 'box') {
    parts.push('b=' + state.path);
  } else {
    parts.push(LETTERS[state.kind] + '=' + variant.names[state.kind][state.index].join(','));
  }
  data.controls.forEach(({ key, values }, c) => {
    if (values.length > 1) {
      parts.push(key + '=' + choices[c]);
    }
  });
  parts.push('d=' + state.direction);
  const chosen = algorithm();
  if (chosen) {
    parts.push('a=' + chosen.device + '.' + chosen.name);
  }
  if (state.time !== Infinity) {
    parts.push('t=' + state.time);
  }
  if (state.paint) {
    parts.push('v=' + state.paint);
  }
  if (state.pinned) {
    parts.push('pin');
  }
  if (present) {
    parts.push('m=' + state.panel);
  }
  return '#' + parts.join('&');
}

// Not at once: browsers slow down pages that write their address at every movement of the mouse.
function remember() {
  clearTimeout(writing);
  if (!question) {
    writing = setTimeout(() => history.replaceState(null, '', address()), 250);
  }
}

function restore() {
  const wanted = new URLSearchParams(location.hash.slice(1).replaceAll('+', '%2B'));
  const choices = data.controls.map(({ key }, c) => wanted.has(key) ? wanted.get(key) : data.variants[state.variant].choice[c]);
  const found = data.variants.findIndex(v => !v.absent && v.choice.every((number, i) => number === choices[i]));
  state.variant = found >= 0 ? found : state.variant;
  if (location.hash) {
    const way = wanted.get('d') || data.direction;
    state.direction = way in data.variants[state.variant].directions ? way : data.direction;
  }
  load(state.variant);
  state.kind = DIRECTIONS[state.direction].result;
  state.index = variant.way.first;
  const algorithm_at = algorithms().findIndex(a => a.device + '.' + a.name === wanted.get('a') || a.name === wanted.get('a'));
  state.algorithm = Math.max(0, algorithm_at);
  state.time = /^\d+$/.test(wanted.get('t') || '') ? Number(wanted.get('t')) : Infinity;
  state.paint = wanted.get('v') || '';
  state.pinned = wanted.has('pin');
  if ($(wanted.get('m') || '') && $(wanted.get('m')).classList.contains('panel')) {
    state.panel = wanted.get('m');
  }
  let at = null;
  for (const letter of Object.keys(KINDS)) {
    if (/^-?\d+(,-?\d+)*$/.test(wanted.get(letter) || '')) {
      state.kind = KINDS[letter];
      at = wanted.get(letter).split(',').map(Number);
    }
  }
  draw(at);
  if (wanted.has('b') && nodes.boxes.has(wanted.get('b'))) {
    selectBox(wanted.get('b'));
  }
}

// ---- All of it ------------------------------------------------------------------------------------------------

function showPanel(id) {
  state.panel = id;
  for (const node of document.querySelectorAll('.panel')) {
    node.classList.toggle('away', present && node.id !== id);
  }
  for (const node of $('panels').children) {
    node.setAttribute('aria-pressed', String(node.dataset.key === id));
  }
  remember();
}

// Draws the chosen variant and direction anew; `at` are coordinates of the selected element.
function draw(at) {
  stop();
  question = null;
  $('question').hidden = true;
  document.body.classList.remove('asking');
  $('predict').setAttribute('aria-pressed', 'false');
  load(state.variant);
  const direction = DIRECTIONS[state.direction];
  nodes = { x: [], w: [], y: [], p: [], b: [] };
  marked = [];
  document.body.dataset.direction = state.direction;
  $('formula').textContent = formula();
  $('title').textContent = variant.way.text;
  document.querySelectorAll('.sign').forEach((node, i) => { node.textContent = direction.signs[i]; });
  drawArray($('x-box'), 'p');
  drawArray($('w-box'), 'w');
  drawArray($('y-box'), 'y');
  if (at) {
    const index = variant.names[state.kind].findIndex(name => name.every((number, i) => number === at[i]));
    state.index = index >= 0 ? index : 0;
  } else if (state.kind === 'box' || state.index >= variant.names[state.kind].length) {
    state.kind = direction.result;
    state.index = 0;
  }
  drawProduct();
  drawBar();
  drawTabs();
  drawOwners();
  drawPaint();
  light();
}

function start() {
  restore();
  document.addEventListener('pointerover', onPoint);
  document.addEventListener('focusin', event => {
    if (event.target.dataset.el) {
      onPoint(event);
    }
  });
  document.addEventListener('click', onClick);
  document.addEventListener('keydown', onKey);
  addEventListener('hashchange', restore);
  for (const id of ['directions', 'tabs', 'paint']) {
    $(id).addEventListener('keydown', choiceKeys);
  }
  $('time').addEventListener('input', () => setTime(Number($('time').value)));
  $('play').addEventListener('click', play);
  $('pin').addEventListener('click', () => {
    state.pinned = !state.pinned;
    light();
  });
  $('predict').addEventListener('click', () => ask(question ? null : makeQuestion()));
  still.addEventListener('change', () => {
    stop();
    light();
  });
  $('tour').append('Try: ');
  data.tour.forEach(([text, hash], i) => $('tour').append(i ? ' · ' : '', make('a', { href: hash }, text)));
  if (present) {
    document.body.classList.add('present');
    $('panels').hidden = false;
    for (const panel of document.querySelectorAll('.panel')) {
      const button = make('button', { type: 'button', 'data-key': panel.id }, panel.querySelector('h2').textContent);
      button.addEventListener('click', () => showPanel(panel.id));
      $('panels').append(button);
    }
    showPanel(state.panel);
  }
  window.talc = {
    ready: true,
    state: () => ({
      ...state, time: state.time === Infinity ? null : state.time, text: variant.way.text, hash: address(),
      algorithm: algorithm() ? algorithm().device + '.' + algorithm().name : null,
      selected: state.kind === 'box' ? 'box ' + state.path : label(state.kind, state.index),
    }),
  };
}

start();
}());
