/*
 * The floor: the least that a jail like sjail's can cost on this machine.
 *
 * A static program that makes the system calls of `sjail run -- PROGRAM` which
 * build the jail, in the same order and with the same arguments, and none of what
 * makes sjail a tool: no command line, no policy, no looking at the host, no
 * checking of sources, no verification, no messages, no exit sentence.
 *
 * What the jail consists of (folders, files, links, mounts, Landlock rules, the
 * length of the filter) comes from plan.h, which the benchmark writes from a
 * trace of sjail itself, so that the two stay in line.
 *
 *     floor PROGRAM [ARG]...
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plan.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#endif
#ifndef MOVE_MOUNT_T_EMPTY_PATH
#define MOVE_MOUNT_T_EMPTY_PATH 0x00000040
#endif
#ifndef MOUNT_ATTR_RDONLY
struct mount_attr { uint64_t attr_set, attr_clr, propagation, userns_fd; };
#endif

extern char **environ;

static void need(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        _exit(125);
    }
}

static void put(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    need(file, path);
    need(write(file, text, strlen(text)), path);
    close(file);
}

static int open2(int at, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };
    return syscall(SYS_openat2, at, path, &how, sizeof how);
}

static void attributes(int tree, uint64_t set, int recursive)
{
    struct { uint64_t set, clear, propagation, userns; } attr = { .set = set };
    need(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &attr, sizeof attr), "mount_setattr");
}

static int fresh(const char *kind, const char *const *options, unsigned attr)
{
    int context = syscall(SYS_fsopen, kind, 1);
    need(context, kind);
    for (; options && *options; options += 2)
        need(syscall(SYS_fsconfig, context, 1, options[0], options[1], 0), options[0]);
    need(syscall(SYS_fsconfig, context, 6, 0, 0, 0), "create");
    int mount = syscall(SYS_fsmount, context, 1, attr);
    need(mount, "fsmount");
    close(context);
    return mount;
}

static void attach(int tree, int place)
{
    need(syscall(SYS_move_mount, tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH), "move_mount");
}

static const char *const root_options[] = { "size", "1073741824", "nr_inodes", "262144", "mode", "0755", 0 };
static const char *const pts_options[] = { "mode", "0600", "ptmxmode", "0666", 0 };

static char contents[FILE_MAX_SIZE + 1];

static void build(void)
{
    int old = open2(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    struct { uint64_t set, clear, propagation, userns; } private = { .propagation = 1 << 18 };
    need(syscall(SYS_mount_setattr, old, "", AT_EMPTY_PATH | AT_RECURSIVE, &private, sizeof private), "private");
    int root = fresh("tmpfs", root_options, 2 | 4);
    attach(root, old);
    umask(0);
#define X(path, mode) need(mkdirat(root, path, mode), path);
    FOLDERS
#undef X
#define X(path, size, mode) { int file = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode); \
        need(file, path); if (size) need(write(file, contents, size), path); close(file); }
    FILES
#undef X
#define X(target, path) need(symlinkat(target, root, path), path);
    LINKS
#undef X
    const uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
#define X(kind, source, destination, set, recursive) { \
        int place = open2(root, destination, O_PATH | O_NOFOLLOW, beneath); need(place, destination); \
        int tree; \
        if (kind == 'h') { int from = open2(AT_FDCWD, source, O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS); need(from, source); \
            tree = syscall(SYS_open_tree, from, "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE); close(from); } \
        else if (kind == 'p') tree = fresh("proc", 0, 2 | 4 | 8); \
        else if (kind == 't') tree = fresh("devpts", pts_options, 2 | 8); \
        else tree = syscall(SYS_open_tree, place, "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH); \
        need(tree, destination); \
        if (set) attributes(tree, set, recursive); \
        attach(tree, place); close(tree); close(place); }
    MOUNTS
#undef X
    umask(022);
    attributes(root, 1, 0);
    need(fchdir(root), "fchdir");
    need(syscall(SYS_pivot_root, ".", "."), "pivot_root");
    need(syscall(SYS_umount2, ".", 2), "umount2");
    need(chdir("/"), "chdir");
    close(root);
    close(old);
}

static void limits(void)
{
#define X(which, soft, hard) { struct rlimit limit = { soft, hard }; setrlimit(which, &limit); }
    LIMITS
#undef X
}

static void drop(void)
{
    for (int capability = 0; capability <= 40; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct { uint32_t version; int pid; } header = { 0x20080522, 0 };
    struct { uint32_t effective, permitted, inheritable; } none[2] = { 0 };
    need(syscall(SYS_capset, &header, none), "capset");
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void landlock(void)
{
    uint64_t folder_rights = 0x7fff & ~((1u << 6) | (1u << 11)), file_rights = 0x4007 | (1u << 15);
    struct { uint64_t fs, net, scoped; } ruleset = { .fs = 0xffff, .scoped = 3 };
    int rules = syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    if (rules < 0) { /* an older kernel */
        ruleset.fs = folder_rights = 0x1fff;
        file_rights = 7;
        rules = syscall(SYS_landlock_create_ruleset, &ruleset, 8, 0);
    }
    need(rules, "landlock_create_ruleset");
#define X(path, is_folder) { int place = open2(AT_FDCWD, path, O_PATH, 0); need(place, path); \
        struct { uint64_t access; int32_t parent; } __attribute__((packed)) rule = { is_folder ? folder_rights : file_rights, place }; \
        need(syscall(SYS_landlock_add_rule, rules, 1, &rule, 0), path); close(place); }
    RULES
#undef X
    need(syscall(SYS_landlock_restrict_self, rules, 0), "landlock_restrict_self");
    close(rules);
}

/* As long as sjail's, with the same early way out: a tree eight comparisons deep. */
static void filter(void)
{
    static struct sock_filter code[FILTER_LENGTH];
    int at = 0, last = FILTER_LENGTH - 1;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int depth = 0; depth < 8; depth++)
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 4000 + depth, 1, 0);
    for (; at < last; at++)
        code[at] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[last] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    struct sock_fprog program = { .len = FILTER_LENGTH, .filter = code };
    need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
}

int main(int count, char **words)
{
    (void)count;
    int pair[2];
    char message = 'x';
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char uid_map[32], gid_map[32];
    snprintf(uid_map, sizeof uid_map, "%u %u 1\n", uid, uid);
    snprintf(gid_map, sizeof gid_map, "%u %u 1\n", gid, gid);
    memset(contents, '#', FILE_MAX_SIZE);
    need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");

    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long child = syscall(SYS_clone3, &args, sizeof args);
    need(child, "clone3");
    if (child != 0) {
        close(pair[1]);
        need(write(pair[0], &message, 1), "go");
        struct pollfd wait[2] = { { .fd = pidfd, .events = POLLIN }, { .fd = pair[0], .events = POLLIN } };
        /* Without a word from pid 1 nothing ran: that must not look like success. */
        unsigned char status = 125;
        for (;;) {
            poll(wait, 2, -1);
            if (wait[1].revents & POLLIN) {
                if (read(pair[0], &status, 1) > 0)
                    continue;
            }
            if (wait[0].revents || (wait[1].revents & POLLHUP))
                break;
        }
        waitpid(child, 0, 0);
        return status;
    }

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    setsid();
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", uid_map);
    put("/proc/self/gid_map", gid_map);
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    need(ioctl(any, SIOCSIFFLAGS, &lo), "lo");
    close(any);
    build();
    need(chdir(WORKING_FOLDER), WORKING_FOLDER);
    need(read(pair[1], &message, 1), "go");
    unshare(CLONE_NEWCGROUP);
    sethostname("floor", 5);
    limits();
    drop();
    landlock();
    filter();

    pid_t target = vfork();
    if (target == 0) {
        setpgid(0, 0);
        syscall(SYS_close_range, 3, ~0u, 4);
        execvp(words[1], words + 1);
        _exit(127);
    }
    int status;
    while (wait(&status) != target)
        ;
    message = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    need(write(pair[1], &message, 1), "status");
    return 0;
}
