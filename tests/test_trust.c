/* test_trust.c - a run directory from somebody else names its model and its data: which of them are opened? Would find
 * an object that is loaded unasked, by a relative path, through a link or out of the run directory, and files that
 * are read though they may never end. */
#include "run_directory.h"
#include "run_record.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>
/* after what it needs */
#include <cmocka.h>

#define OBJECT WVGD_BINARY_DIR "/tests/plugin.so"

static char dir[64];

static int enter(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/wvgd-trust-XXXXXX");
    return mkdtemp(dir) && !chdir(dir) && !mkdir("run", 0700) ? 0 : -1;
}

static int leave(void **state)
{
    (void)state;
    static const char *const files[] = {"link.so", "model.so", "run/model.so", "run", "pipe", "data.json", "directory"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        remove(files[i]);
    return chdir("/") || rmdir(dir);
}

static void copy_to(const char *path)
{
    char line[PATH_MAX + sizeof OBJECT + 12];
    snprintf(line, sizeof line, "cp '%s' '%s'", OBJECT, path);
    assert_int_equal(system(line), 0);
}

static void in_dir(const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", dir, name);
}

static void set_hash(json_t *reopen, const char *key, const char *path)
{
    uint64_t hash;
    char text[20];
    failure f;
    assert_int_equal(hash_file(path, &hash, &f), 0);
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_object_set_new(reopen, key, json_string(text));
}

/* A record that names this model, with the right hash of what is there. */
static json_t *record_of(const char *model, const char *data)
{
    json_t *reopen = json_object();
    json_object_set_new(reopen, "model", json_string(model));
    if (strchr(model, '/'))
        set_hash(reopen, "model_hash", model);
    if (data)
        json_object_set_new(reopen, "data", json_string(data));
    return json_pack("{s:{}, s:{s:s}, s:o}", "options", "model", "name", model, "reopen", reopen);
}

static bool is_loaded(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (object)
        dlclose(object);
    return object != NULL;
}

/* Exit code of opening the model again; `says`: part of the message. */
static int open_it(const char *model, const char *data, model_trust trust, const char *says)
{
    failure f = {0};
    opened_model opened = {0};
    json_t *asked = record_of(model, data);
    int code = open_again(asked, "run", &trust, &opened, &f);
    if (code && !strstr(f.text, says))
        fail_msg("'%s' lacks '%s'", f.text, says);
    if (!code)
        close_model(&opened);
    json_decref(asked);
    return code;
}

static void objects_are_loaded_when_asked_for(void **state)
{
    (void)state;
    char path[PATH_MAX], link[PATH_MAX], inside[PATH_MAX];
    in_dir("model.so", path);
    in_dir("link.so", link);
    in_dir("run/model.so", inside);
    copy_to(path);
    copy_to(inside);
    assert_int_equal(symlink(path, link), 0);
    model_trust none = {0}, recorded = {.recorded = true}, named = {.named = "model.so"};
    assert_int_equal(open_it(path, NULL, none, "--trust-model"), EX_TEMPFAIL);
    assert_int_equal(open_it("./model.so", NULL, none, "--trust-model"), EX_TEMPFAIL);
    assert_int_equal(open_it("./model.so", NULL, recorded, "expected a full path"), EX_TEMPFAIL);
    assert_int_equal(open_it("run/model.so", NULL, recorded, "expected a full path"), EX_TEMPFAIL);
    assert_int_equal(open_it(link, NULL, recorded, "is now "), EX_TEMPFAIL);
    assert_int_equal(open_it(inside, NULL, recorded, "lies inside that directory"), EX_TEMPFAIL);
    assert_false(is_loaded(path) || is_loaded(inside));
    assert_int_equal(open_it(path, NULL, recorded, ""), 0);
    assert_int_equal(open_it("run/model.so", NULL, named, ""), 0); /* the user's own, of the same content */
    assert_false(is_loaded(inside));
}

static void changed_objects_are_not_loaded(void **state)
{
    (void)state;
    char path[PATH_MAX];
    failure f;
    opened_model opened = {0};
    in_dir("model.so", path);
    copy_to(path);
    json_t *asked = record_of(path, NULL);
    FILE *s = fopen(path, "ab");
    assert_true(s && fputc('x', s) == 'x' && !fclose(s));
    for (int k = 0; k < 2; k++) {
        model_trust trust = {k == 0, k ? "model.so" : NULL, "name it"};
        assert_int_equal(open_again(asked, "run", &trust, &opened, &f), EX_TEMPFAIL);
        assert_non_null(strstr(f.text, "has changed"));
    }
    json_object_del(json_object_get(asked, "reopen"), "model_hash");
    assert_int_equal(open_again(asked, "run", &(model_trust){.recorded = true}, &opened, &f), EX_TEMPFAIL);
    assert_false(is_loaded(path));
    json_decref(asked);
}

/* No hash, no full path, or no plain file: the data are not read. Nothing waits for a pipe. */
static void data_are_plain_files_with_a_hash(void **state)
{
    (void)state;
    char pipe[PATH_MAX], data[PATH_MAX];
    in_dir("pipe", pipe);
    in_dir("data.json", data);
    assert_true(!mkfifo(pipe, 0600) && !mkdir("directory", 0700));
    FILE *s = fopen(data, "w");
    assert_true(s && fputs("{\"weights\": [1], \"means\": [0], \"sds\": [1]}", s) >= 0 && !fclose(s));
    model_trust none = {0};
    alarm(300);
    assert_int_equal(open_it("mixture", pipe, none, "not a regular file"), EX_TEMPFAIL);
    assert_int_equal(open_it("mixture", "/dev/zero", none, "not a regular file"), EX_TEMPFAIL);
    assert_int_equal(open_it("mixture", "/dev/tty", none, "not a regular file"), EX_TEMPFAIL);
    assert_int_equal(open_it("mixture", "data.json", none, "expected a full path"), EX_TEMPFAIL);
    assert_int_equal(open_it("mixture", data, none, "has no checksum of"), EX_TEMPFAIL);
    assert_int_equal(open_it("mixture", "/etc/passwd", none, "has no checksum of"), EX_TEMPFAIL);
    uint64_t hash;
    failure f;
    assert_int_equal(hash_file(pipe, &hash, &f), EX_NOINPUT);
    assert_int_equal(hash_file("directory", &hash, &f), EX_NOINPUT);
    alarm(0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave)
    const struct CMUnitTest tests[] = {
        TEST(objects_are_loaded_when_asked_for),
        TEST(changed_objects_are_not_loaded),
        TEST(data_are_plain_files_with_a_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
