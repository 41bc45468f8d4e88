/* SPDX-License-Identifier: MIT */
/* System calls that not every CPU has. Where one is missing, its name is a number that no system call has. */
#ifndef JAB_ARCH_SYSCALLS_H
#define JAB_ARCH_SYSCALLS_H

#include <sys/syscall.h>

#define NO_CALL(n) (0x40000000 + (n))

#ifndef SYS_arch_prctl
#define SYS_arch_prctl NO_CALL(0)
#endif
#ifndef SYS_vfork
#define SYS_vfork NO_CALL(1)
#endif
#ifndef SYS_fork
#define SYS_fork NO_CALL(2)
#endif
#ifndef SYS_epoll_wait
#define SYS_epoll_wait NO_CALL(3)
#endif
#ifndef SYS_epoll_wait_old
#define SYS_epoll_wait_old NO_CALL(4)
#endif
#ifndef SYS_poll
#define SYS_poll NO_CALL(5)
#endif
#ifndef SYS_select
#define SYS_select NO_CALL(6)
#endif
#ifndef SYS_pause
#define SYS_pause NO_CALL(7)
#endif
#ifndef SYS_open
#define SYS_open NO_CALL(8)
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

#endif
