// Preloaded into a command: the clock of the day goes back by an hour when it has been read
// CLOCK_BACK_AFTER times. Clocks that only go on are left alone, as they are when somebody sets the
// real one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long Shift(void) {
  static atomic_long reads;
  const char* after = getenv("CLOCK_BACK_AFTER");
  return after != NULL && atomic_fetch_add(&reads, 1) >= atol(after) ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int (*real)(clockid_t, struct timespec*) = dlsym(RTLD_NEXT, "clock_gettime");
  const int code = real(clock, now);
  if (code == 0 && clock == CLOCK_REALTIME) now->tv_sec -= Shift();
  return code;
}

int gettimeofday(struct timeval* now, void* zone) {
  int (*real)(struct timeval*, void*) = dlsym(RTLD_NEXT, "gettimeofday");
  const int code = real(now, zone);
  if (code == 0) now->tv_sec -= Shift();
  return code;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
