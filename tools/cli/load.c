#include "tools/cli/load.h"

#include <talc/networks.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OBJECTS = 16 };

static const char *loaded[MAX_OBJECTS];
static int loaded_count;

static bool is_loaded(const char *path)
{
    for (int i = 0; i < loaded_count; i++)
        if (strcmp(loaded[i], path) == 0)
            return true;
    return false;
}

/* A file of that name, and not a library of the system. */
static void *open_object(const char *path)
{
    char here[4096];
    if (snprintf(here, sizeof here, "%s%s", strchr(path, '/') == NULL ? "./" : "", path) >=
        (int)sizeof here) {
        talc_fail(TALC_IO_ERROR, "--load: '%s' is too long for a path", TALC_SHOWN(path));
        return NULL;
    }
    FILE *file = fopen(here, "rb"); /* the loader's words for a missing file are its own */
    if (file == NULL) {
        talc_fail(TALC_IO_ERROR, "--load: '%s' cannot be opened", TALC_SHOWN(path));
        return NULL;
    }
    fclose(file);
    void *object = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    const char *why = object == NULL ? dlerror() : NULL;
    if (object == NULL)
        talc_fail(TALC_BAD_FORMAT, "--load: '%s' is no shared object that can be loaded: %s",
                  TALC_SHOWN(path), why == NULL ? "" : TALC_SHOWN(why));
    return object;
}

static bool start(const char *path, const talc_loaded_object *object)
{
    if (object == NULL)
        talc_fail(TALC_BAD_FORMAT, "--load: '%s' has no symbol talc_loaded (talc/networks.h)",
                  TALC_SHOWN(path));
    else if (object->version != TALC_LOADED_VERSION)
        talc_fail(TALC_BAD_FORMAT,
                  "--load: talc_loaded of '%s' is of version %d, this talc has version %d; compile "
                  "it anew",
                  TALC_SHOWN(path), object->version, TALC_LOADED_VERSION);
    else if (object->network == NULL && object->start == NULL)
        talc_fail(TALC_BAD_FORMAT, "--load: talc_loaded of '%s' has no network and no start",
                  TALC_SHOWN(path));
    if (talc_failed())
        return false;
    if (object->start != NULL && !object->start() && !talc_failed())
        talc_fail(TALC_BAD_ARGUMENT, "--load: start of '%s' gave up and raised no failure",
                  TALC_SHOWN(path));
    return !talc_failed() && (object->network == NULL || talc_network_add(object->network));
}

bool load_object(const char *path)
{
    if (is_loaded(path))
        return true;
    if (loaded_count == MAX_OBJECTS) {
        talc_fail(TALC_BAD_ARGUMENT, "--load: more than %d objects", MAX_OBJECTS);
        return false;
    }
    void *object = open_object(path);
    if (object == NULL || !start(path, dlsym(object, "talc_loaded")))
        return false;
    loaded[loaded_count++] = path;
    return true;
}

bool load_objects(int argc, char **argv)
{
    static const char option[] = "--load";
    const size_t length = sizeof option - 1;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], option, length) != 0)
            continue;
        const char *path = argv[i][length] == '='                    ? argv[i] + length + 1
                           : argv[i][length] == '\0' && i + 1 < argc ? argv[++i]
                                                                     : NULL;
        if (path != NULL && !load_object(path))
            return false;
    }
    return true;
}

const char *load_arguments(void)
{
    static char text[MAX_OBJECTS * 256];
    size_t used = 0;
    for (int i = 0; i < loaded_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s--load '%s'", i > 0 ? " " : "",
                                 TALC_SHOWN(loaded[i]));
    return loaded_count > 0 ? text : NULL;
}
