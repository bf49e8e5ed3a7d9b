/* What the devices behind a line share: a pseudo-terminal whose slave is the port, and a clock that programs can wait for. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int master, slave;

static int64_t ns_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ns(void) { return ns_of(CLOCK_MONOTONIC); }

static void sleep_until(int64_t at_ns) {
  struct timespec t = {at_ns / 1000000000, at_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

/* Bytes that the port's user has not read. */
static int waiting_bytes(void) {
  int waiting = 0;
  if (ioctl(slave, FIONREAD, &waiting) < 0) die("FIONREAD");
  return waiting;
}

/* Prints the slave's path. The slave stays open here: the master never hangs up between two users of the port. */
static void open_pty(void) {
  char path[1024];
  struct termios raw;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  if (openpty(&master, &slave, path, NULL, NULL) < 0 || tcgetattr(slave, &raw) < 0) die("openpty");
  cfmakeraw(&raw);
  if (tcsetattr(slave, TCSANOW, &raw) < 0) die("tcsetattr");
  printf("%s\n", path);
  fflush(stdout);
}
