#!/usr/bin/env python3
"""Whether ./run configures again where it has to, and only there: test_run.py ROOT. Stand-ins for ninja and apt-get compile and install nothing."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

STAND_INS = {
    'ninja': '''case " $* " in *" -C "*) ;; *) exec {ninja} "$@" ;; esac
test -f "$2/build.ninja" && mkdir -p "$2/tools" && ln -sf /bin/true "$2/tools/talc"''',
    'apt-get': '''[ "$1" = install ] || exit 0
echo "#define DNNL_VERSION_MAJOR 2" >"$CPATH/dnnl.h" && cc -shared -o "$LIBRARY_PATH/libdnnl.so" -x c /dev/null''',
    'sudo': 'exec "$@"',
}


def stand_in(path, text):
    path.write_text('#!/bin/sh\n' + text + '\n')
    path.chmod(0o755)


def main(root):
    if not all(map(shutil.which, ['meson', 'ninja', 'pkg-config'])):
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        clone, commands, installed, toolkit = (folder / n for n in ('clone', 'commands', 'installed', 'toolkit/bin'))
        for made in (clone, commands, installed, toolkit, toolkit.parent / 'include', toolkit.parent / 'lib64'):
            made.mkdir(parents=True)
        for entry in root.iterdir():
            if not entry.name.startswith(('.', 'build')):
                (clone / entry.name).symlink_to(entry)
        (clone / 'run').unlink()
        shutil.copy(root / 'run', clone)
        for command, text in STAND_INS.items():
            stand_in(commands / command, text.format(ninja=shutil.which('ninja')))
        subprocess.run(['ar', 'rc', toolkit.parent / 'lib64/libcudart_static.a'], check=True)
        environment = dict(os.environ, PATH=f'{commands}:{toolkit}:{os.environ["PATH"]}', CPATH=str(installed), LIBRARY_PATH=str(installed))
        rules, private = clone / 'build/build.ninja', clone / 'build/meson-private'
        failures = []

        def run(command, what, holds=lambda: True):
            done = subprocess.run([clone / 'run', command], env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0 or not holds():
                failures.append(f'./run {command} {what}: status {done.returncode}\n{done.stdout}{done.stderr}')

        stand_in(toolkit / 'nvcc', 'exit 0')
        run('build', 'on a fresh clone', lambda: str(toolkit) in rules.read_text())
        (toolkit / 'nvcc').unlink()
        run('build', 'without the nvcc that it was configured with', lambda: str(toolkit) not in rules.read_text())
        stand_in(toolkit / 'nvcc', 'exit 0')
        run('build', 'with an nvcc that came later', lambda: 'bin/nvcc' in rules.read_text())
        run('bench', 'with a oneDNN that it has just installed', lambda: 'libdnnl.so' in rules.read_text())
        before = rules.stat().st_mtime_ns
        run('build', 'with nothing new', lambda: rules.stat().st_mtime_ns == before)
        # What an interrupted first `meson setup` leaves: the one it takes for the end, not what it writes after that.
        rules.unlink()
        (private / 'cmd_line.txt').unlink()
        run('bench', 'after an interrupted configuration', lambda: 'libdnnl.so' in rules.read_text())
        subprocess.run(['meson', 'configure', clone / 'build', '-Donednn=disabled'], check=False, capture_output=True)
        run('bench', 'where the option was taken back', lambda: 'libdnnl.so' in rules.read_text())
        print('\n'.join(failures))
        return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
