/* SPDX-License-Identifier: MIT */
/* Names of system calls, for syscall_name(): those that both CPUs have, and those of x86-64. */
#include <sys/syscall.h>
#include "base/mem.h"
#include "lang/format.h"

#define S(name) [SYS_##name] = #name

static const char *const names[] = {
	S(read), S(write), S(close), S(fstat), S(lseek), S(mmap), S(mprotect), S(munmap), S(brk),
	S(rt_sigaction), S(rt_sigprocmask), S(rt_sigreturn), S(ioctl), S(pread64), S(pwrite64),
	S(readv), S(writev), S(sched_yield), S(mremap), S(msync), S(mincore), S(madvise),
	S(shmget), S(shmat), S(shmctl), S(dup), S(nanosleep), S(getitimer), S(setitimer),
	S(getpid), S(sendfile), S(socket), S(connect), S(accept), S(sendto), S(recvfrom),
	S(sendmsg), S(recvmsg), S(shutdown), S(bind), S(listen), S(getsockname), S(getpeername),
	S(socketpair), S(setsockopt), S(getsockopt), S(clone), S(execve), S(exit), S(wait4),
	S(kill), S(uname), S(semget), S(semop), S(semctl), S(shmdt), S(msgget), S(msgsnd),
	S(msgrcv), S(msgctl), S(fcntl), S(flock), S(fsync), S(fdatasync), S(truncate),
	S(ftruncate), S(getcwd), S(chdir), S(fchdir), S(fchmod), S(fchown), S(umask),
	S(gettimeofday), S(getrlimit), S(getrusage), S(sysinfo), S(times), S(ptrace), S(getuid),
	S(syslog), S(getgid), S(setuid), S(setgid), S(geteuid), S(getegid), S(setpgid),
	S(getppid), S(setsid), S(setreuid), S(setregid), S(getgroups), S(setgroups), S(setresuid),
	S(getresuid), S(setresgid), S(getresgid), S(getpgid), S(setfsuid), S(setfsgid), S(getsid),
	S(capget), S(capset), S(rt_sigpending), S(rt_sigtimedwait), S(rt_sigqueueinfo),
	S(rt_sigsuspend), S(sigaltstack), S(personality), S(statfs), S(fstatfs), S(getpriority),
	S(setpriority), S(sched_setparam), S(sched_getparam), S(sched_setscheduler),
	S(sched_getscheduler), S(sched_get_priority_max), S(sched_get_priority_min),
	S(sched_rr_get_interval), S(mlock), S(munlock), S(mlockall), S(munlockall), S(vhangup),
	S(pivot_root), S(prctl), S(adjtimex), S(setrlimit), S(chroot), S(sync), S(acct),
	S(settimeofday), S(mount), S(umount2), S(swapon), S(swapoff), S(reboot), S(sethostname),
	S(setdomainname), S(init_module), S(delete_module), S(quotactl), S(nfsservctl), S(gettid),
	S(readahead), S(setxattr), S(lsetxattr), S(fsetxattr), S(getxattr), S(lgetxattr),
	S(fgetxattr), S(listxattr), S(llistxattr), S(flistxattr), S(removexattr), S(lremovexattr),
	S(fremovexattr), S(tkill), S(futex), S(sched_setaffinity), S(sched_getaffinity),
	S(io_setup), S(io_destroy), S(io_getevents), S(io_submit), S(io_cancel),
	S(lookup_dcookie), S(remap_file_pages), S(getdents64), S(set_tid_address),
	S(restart_syscall), S(semtimedop), S(fadvise64), S(timer_create), S(timer_settime),
	S(timer_gettime), S(timer_getoverrun), S(timer_delete), S(clock_settime),
	S(clock_gettime), S(clock_getres), S(clock_nanosleep), S(exit_group), S(epoll_ctl),
	S(tgkill), S(mbind), S(set_mempolicy), S(get_mempolicy), S(mq_open), S(mq_unlink),
	S(mq_timedsend), S(mq_timedreceive), S(mq_notify), S(mq_getsetattr), S(kexec_load),
	S(waitid), S(add_key), S(request_key), S(keyctl), S(ioprio_set), S(ioprio_get),
	S(inotify_add_watch), S(inotify_rm_watch), S(migrate_pages), S(openat), S(mkdirat),
	S(mknodat), S(fchownat), S(newfstatat), S(unlinkat), S(renameat), S(linkat), S(symlinkat),
	S(readlinkat), S(fchmodat), S(faccessat), S(pselect6), S(ppoll), S(unshare),
	S(set_robust_list), S(get_robust_list), S(splice), S(tee), S(sync_file_range),
	S(vmsplice), S(move_pages), S(utimensat), S(epoll_pwait), S(timerfd_create), S(fallocate),
	S(timerfd_settime), S(timerfd_gettime), S(accept4), S(signalfd4), S(eventfd2),
	S(epoll_create1), S(dup3), S(pipe2), S(inotify_init1), S(preadv), S(pwritev),
	S(rt_tgsigqueueinfo), S(perf_event_open), S(recvmmsg), S(fanotify_init), S(fanotify_mark),
	S(prlimit64), S(name_to_handle_at), S(open_by_handle_at), S(clock_adjtime), S(syncfs),
	S(sendmmsg), S(setns), S(getcpu), S(process_vm_readv), S(process_vm_writev), S(kcmp),
	S(finit_module), S(sched_setattr), S(sched_getattr), S(renameat2), S(seccomp),
	S(getrandom), S(memfd_create), S(kexec_file_load), S(bpf), S(execveat), S(userfaultfd),
	S(membarrier), S(mlock2), S(copy_file_range), S(preadv2), S(pwritev2), S(pkey_mprotect),
	S(pkey_alloc), S(pkey_free), S(statx), S(io_pgetevents), S(rseq), S(pidfd_send_signal),
	S(io_uring_setup), S(io_uring_enter), S(io_uring_register), S(open_tree), S(move_mount),
	S(fsopen), S(fsconfig), S(fsmount), S(fspick), S(pidfd_open), S(clone3), S(close_range),
	S(openat2), S(pidfd_getfd), S(faccessat2), S(process_madvise), S(epoll_pwait2),
	S(mount_setattr), S(quotactl_fd), S(landlock_create_ruleset), S(landlock_add_rule),
	S(landlock_restrict_self), S(memfd_secret), S(process_mrelease), S(futex_waitv),
	S(set_mempolicy_home_node),
#ifdef __x86_64__
	S(open), S(stat), S(lstat), S(poll), S(access), S(pipe), S(select), S(dup2), S(pause),
	S(alarm), S(fork), S(vfork), S(getdents), S(rename), S(mkdir), S(rmdir), S(creat),
	S(link), S(unlink), S(symlink), S(readlink), S(chmod), S(chown), S(lchown), S(getpgrp),
	S(utime), S(mknod), S(uselib), S(ustat), S(sysfs), S(modify_ldt), S(_sysctl),
	S(arch_prctl), S(iopl), S(ioperm), S(create_module), S(get_kernel_syms), S(query_module),
	S(getpmsg), S(putpmsg), S(afs_syscall), S(tuxcall), S(security), S(time),
	S(set_thread_area), S(get_thread_area), S(epoll_create), S(epoll_ctl_old),
	S(epoll_wait_old), S(epoll_wait), S(utimes), S(vserver), S(inotify_init), S(futimesat),
	S(signalfd), S(eventfd),
#endif
};

const char *syscall_known(uint64_t number)
{
	return number < ARRAY_SIZE(names) && names[number] ? names[number] : "N/A";
}
