/* Runs commands as the users whom docs/operate.md and deploy/systemd name, with small and large
 * models and several umasks. It needs root to become these users. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* setgroups */
#include "fed_cases.h"
#include "fed_curl.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_operator.h"
#include "fed_port.h"

enum { PATIENCE_MS = 300000, POLL_MS = 20 };

typedef enum user { ROOT = 0, FED = 61001, FRONT = 61002, PERSON = 61003 } user;
enum { FED_GROUP = 61000 };

static const char *name_of(user who) {
    return who == ROOT ? "root" : who == FED ? "fed" : who == FRONT ? "fed-front" : "a person";
}

typedef struct world {
    char parent[256], directory[300];
    int program; /* file descriptor */
    pid_t rounds, front;
    uint16_t front_port, devices_port;
    fed_pem ca;
    CURL *browser;
    char out[16384];
} world;

static _Noreturn void become(const world *w, user who, mode_t mask, char *const *words) {
    const gid_t group = who == FED || who == FRONT ? FED_GROUP : (gid_t)who;
    static char *const no_environment[] = {NULL};
    fed_test_die_with_parent();
    if (setgroups(0, NULL) != 0 || setgid(group) != 0 || setuid((uid_t)who) != 0 ||
        chdir("/") != 0) {
        _exit(126);
    }
    umask(mask);
    fexecve(w->program, words, no_environment);
    _exit(127);
}

static void split(char *line, char *words[24]) {
    size_t count = 0;
    words[count++] = (char *)(uintptr_t) "fedserver";
    for (char *word = strtok(line, " "); word != NULL && count < 23; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    words[count] = NULL;
}

static pid_t begin(const world *w, user who, mode_t mask, const char *line, int out) {
    char copy[2048], *words[24];
    snprintf(copy, sizeof copy, "%s", line);
    split(copy, words);
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(out, 1) < 0 || dup2(out, 2) < 0) {
            _exit(125);
        }
        become(w, who, mask, words);
    }
    return pid;
}

/* Run "fedserver LINE --dir DIR" as this user. Returns the exit status. */
static int run(world *w, user who, mode_t mask, const char *format, ...) FED_PRINTF(4, 5);
static int run(world *w, user who, mode_t mask, const char *format, ...) {
    char line[1024], whole[1500];
    int ends[2], status = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s --dir %s", line, w->directory);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t pid = begin(w, who, mask, whole, ends[1]);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t got = 1; got > 0; len += got > 0 ? (size_t)got : 0) {
        got = read(ends[0], w->out + len, sizeof w->out - 1 - len);
    }
    w->out[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define MUST(w, who, mask, ...)                                                                    \
    do {                                                                                           \
        const int must_status_ = run(w, who, mask, __VA_ARGS__);                                   \
        if (must_status_ != 0) {                                                                   \
            fail_msg("as %s with umask %03o, `fedserver %s` ends with %d: %s", name_of(who),       \
                     (unsigned)(mask), #__VA_ARGS__, must_status_, (w)->out);                      \
        }                                                                                          \
    } while (0)

static void put_task(const world *w, const char *name, const char *model) {
    char text[400];
    snprintf(text, sizeof text,
             "{\"model\": \"%s\", \"codec_up\": \"float32\", \"rounds\": 1, \"cohort\": 1}", model);
    fed_test_put(w->parent, name, text, strlen(text));
}

static const char *outputs(const world *w, user who) {
    static char path[320];
    snprintf(path, sizeof path, "%s/of-%d", w->parent, (int)who);
    return path;
}

static void open_world(world *w, const user *users, size_t count) {
    *w = (world){.program = open(FED_BIN_DIR "/fedserver", O_RDONLY | O_CLOEXEC)};
    assert_true(w->program >= 0);
    fed_test_tmpdir(w->parent, sizeof w->parent);
    assert_int_equal(chmod(w->parent, 0755), 0);
    snprintf(w->directory, sizeof w->directory, "%s/coordinator", w->parent);
    put_task(w, "small.json", "input 2 | dense 2");
    put_task(w, "large.json", "input 784 | dense 336");
    for (size_t k = 0; k < count; k++) {
        assert_int_equal(mkdir(outputs(w, users[k]), 0700), 0);
        assert_int_equal(chown(outputs(w, users[k]), (uid_t)users[k], (gid_t)-1), 0);
    }
    w->front_port = fed_port_keep();
    w->devices_port = fed_port_keep();
}

static void read_ca(world *w) {
    char *text = fed_operator_ca(w->directory);
    snprintf(w->ca.text, sizeof w->ca.text, "%s", text);
    free(text);
}

static void end(pid_t *pid) {
    if (*pid > 0) {
        int status = 0;
        assert_int_equal(kill(*pid, SIGTERM), 0);
        assert_int_equal(waitpid(*pid, &status, 0), *pid);
        *pid = 0;
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void stop(world *w) {
    end(&w->front);
    end(&w->rounds);
}

static void close_world(world *w) {
    stop(w);
    curl_easy_cleanup(w->browser);
    close(w->program);
    fed_test_rmdir(w->parent);
}

static void must_live(const world *w, pid_t pid) {
    char path[320];
    uint8_t *log = NULL;
    size_t len = 0;
    fed_error err = {0};
    if (pid > 0 && waitpid(pid, NULL, WNOHANG) == pid) {
        snprintf(path, sizeof path, "%s/log", w->parent);
        assert_fed_ok_err(fed_file_read(path, 1 << 20, &log, &len, &err));
        fail_msg("a service has ended: %s", (const char *)log);
    }
}

static void ask_status(const world *w) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    for (long status = 0; status != 200;) {
        CURL *curl = fed_curl_new(&w->ca, NULL, w->front_port, "/v1/status");
        fed_reply reply = fed_curl_ask(curl);
        status = reply.status;
        fed_reply_free(&reply);
        curl_easy_cleanup(curl);
        must_live(w, w->rounds);
        must_live(w, w->front);
        assert_true(fed_clock_monotonic_ms() < end_ms);
        fed_sleep_ms(status != 200 ? POLL_MS : 0);
    }
}

/* Core files must be off, because they would contain keys. */
static void writes_no_core(pid_t pid) {
    char path[64], line[200];
    unsigned long most = 1;
    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    FILE *limits = fopen(path, "re");
    assert_non_null(limits);
    bool found = false;
    while (!found && fgets(line, sizeof line, limits) != NULL) {
        found = sscanf(line, "Max core file size %*s %lu", &most) == 1;
    }
    fclose(limits);
    assert_true(found && most == 0);
}

static void start(world *w, user rounds, user front) {
    char line[1024], path[320];
    snprintf(path, sizeof path, "%s/log", w->parent);
    const int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(log >= 0);
    const mode_t mask = rounds == front ? 022 : 0007;
    snprintf(line, sizeof line,
             "run --dir %s --bind 127.0.0.1 --front-port %u --devices-port %u --quiet%s",
             w->directory, w->front_port, w->devices_port, rounds == front ? "" : " --no-front");
    w->rounds = begin(w, rounds, mask, line, log);
    if (rounds != front) {
        snprintf(line, sizeof line,
                 "front --dir %s --bind 127.0.0.1 --front-port %u --devices-port %u --quiet",
                 w->directory, w->front_port, w->devices_port);
        w->front = begin(w, front, mask, line, log);
    }
    close(log);
    ask_status(w);
    writes_no_core(w->rounds);
    writes_no_core(rounds == front ? fed_test_child(w->rounds) : w->front);
}

static bool is_listed(world *w, user who, mode_t mask, unsigned task, const char *state) {
    char words[64];
    MUST(w, who, mask, "tasks --json");
    snprintf(words, sizeof words, "\"id\": %u,", task);
    const char *entry = strstr(w->out, words);
    const char *found = entry != NULL ? strstr(entry, "\"state\": \"") : NULL;
    return found != NULL && strncmp(found + strlen("\"state\": \""), state, strlen(state)) == 0;
}

static void wait_until_it_runs(world *w, user who, mode_t mask, unsigned task) {
    const int64_t end_ms = fed_clock_monotonic_ms() + PATIENCE_MS;
    while (!is_listed(w, who, mask, task, "running")) {
        if (is_listed(w, who, mask, task, "paused") || fed_clock_monotonic_ms() > end_ms) {
            fail_msg("task %u of %s does not start: %s", task, name_of(who), w->out);
        }
        ask_status(w);
    }
}

static void must_be_private(const char *path, user who) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(info.st_uid, who);
}

static void log_in(world *w, user who) {
    MUST(w, who, 022, "page");
    char *token = strchr(w->out, '#');
    assert_non_null(token);
    token[strcspn(token, "\n")] = '\0';
    w->browser = fed_curl_new(&w->ca, NULL, w->front_port, "/v1/login");
    curl_easy_setopt(w->browser, CURLOPT_COOKIEFILE, "");
    curl_easy_setopt(w->browser, CURLOPT_COPYPOSTFIELDS, token + 1);
    fed_curl_expect(w->browser, 200, "");
    curl_easy_setopt(w->browser, CURLOPT_HTTPGET, 1L);
}

static void download(const world *w, unsigned task) {
    char url[128];
    snprintf(url, sizeof url, "https://127.0.0.1:%u/model.safetensors?task=%u", w->front_port,
             task);
    curl_easy_setopt(w->browser, CURLOPT_URL, url);
    fed_curl_expect(w->browser, 200, "");
}

/* Queue a task as users[k]. Every user exports the model. The next user pauses and resumes the
 * task. */
static void use_task(world *w, const user *users, size_t count, size_t k, mode_t mask,
                     const char *file, unsigned task) {
    const user next = users[(k + 1) % count];
    MUST(w, users[k], mask, "task %s/%s", w->parent, file);
    wait_until_it_runs(w, users[k], mask, task);
    download(w, task);
    for (size_t other = 0; other < count; other++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%u.safetensors", outputs(w, users[other]), task);
        MUST(w, users[other], mask, "export --task %u %s", task, path);
        must_be_private(path, users[other]);
    }
    MUST(w, next, mask, "pause %u", task);
    MUST(w, next, mask, "resume %u", task);
    wait_until_it_runs(w, next, mask, task);
}

static void use_commands(world *w, user who, mode_t mask) {
    static const char *const commands[] = {"status", "tokens", "token",         "devices",
                                           "audit",  "page",   "page --bearer", "health"};
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
        MUST(w, who, mask, "%s", commands[k]);
    }
}

/* Run the commands that need the CA's key. The backup belongs to the user. */
static void use_key(world *w, user who, mode_t mask) {
    MUST(w, who, mask, "cert show");
    char copy[400], kept[300];
    snprintf(copy, sizeof copy, "%s/copy-%03o", outputs(w, who), (unsigned)mask);
    MUST(w, who, mask, "backup %s", copy);
    memcpy(kept, w->directory, sizeof kept);
    snprintf(w->directory, sizeof w->directory, "%.299s", copy);
    MUST(w, who, mask, "check");
    memcpy(w->directory, kept, sizeof kept);
}

static void nothing_is_roots(const world *w) {
    DIR *folder = opendir(w->directory);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat info;
        assert_int_equal(fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW), 0);
        if (strcmp(entry->d_name, "..") != 0 && info.st_uid == 0) {
            fail_msg("%s belongs to root", entry->d_name);
        }
    }
    closedir(folder);
}

static const mode_t masks[] = {0077, 022};
enum { MASKS = sizeof masks / sizeof masks[0] };

/* Try all users, with each umask or in a short run with one. Only the first `keepers` users may
 * read the CA's key. */
static void walk(world *w, const user *users, size_t count, size_t keepers, user rounds,
                 user front) {
    unsigned task = 0;
    for (size_t m = 0; m < (size_t)FED_TEST_TRIES(MASKS, 1); m++) {
        start(w, rounds, front);
        if (w->browser == NULL) {
            log_in(w, users[0]);
        }
        for (size_t k = 0; k < count; k++) {
            use_task(w, users, count, k, masks[m], "small.json", ++task);
            use_task(w, users, count, k, masks[m], "large.json", ++task);
            use_commands(w, users[k], masks[m]);
        }
        for (size_t k = 0; k < keepers; k++) {
            use_key(w, users[k], masks[m]);
        }
        nothing_is_roots(w);
        stop(w);
        for (size_t k = 0; k < count; k++) {
            MUST(w, users[k], masks[m], "check");
        }
        nothing_is_roots(w);
    }
    start(w, rounds, front);
    ask_status(w);
}

static void set_owners(const world *w) {
    char command[1200];
    snprintf(command, sizeof command,
             "dir='%s'; eval \"$(sed -n '/^set_owners/,/^}/p' "
             "'" FED_SOURCE_DIR "/deploy/systemd/fedserver-init.in' |"
             " sed 's/fed:fed/%d:%d/; s/fed-front:fed/%d:%d/')\"; set_owners",
             w->directory, FED, FED_GROUP, FRONT, FED_GROUP);
    assert_int_equal(system(command), 0);
}

FED_TEST(the_services_and_their_users) {
    static const user users[] = {ROOT, FRONT, FED};
    world w;
    open_world(&w, users, 3);
    MUST(&w, ROOT, 022, "init --host 127.0.0.1");
    set_owners(&w);
    read_ca(&w);
    walk(&w, users, 3, 2, FED, FRONT);
    char copy[400];
    snprintf(copy, sizeof copy, "%s/copy", outputs(&w, FED));
    assert_int_equal(run(&w, FED, 022, "backup %s", copy), 1);
    assert_non_null(strstr(w.out, "ca.key"));
    close_world(&w);
}

FED_TEST(a_persons_own_folder_and_root) {
    static const user users[] = {PERSON, ROOT};
    world w;
    open_world(&w, users, 2);
    assert_int_equal(mkdir(w.directory, 0700), 0);
    assert_int_equal(chown(w.directory, PERSON, PERSON), 0);
    MUST(&w, PERSON, 022, "init --host 127.0.0.1");
    read_ca(&w);
    walk(&w, users, 2, 2, PERSON, PERSON);
    close_world(&w);
}

int main(void) {
    enum { SKIPPED = 77 };
    if (geteuid() != 0) {
        puts("skipped: only root can become the other users");
        return SKIPPED;
    }
    return fed_cases_run(NULL, NULL);
}
