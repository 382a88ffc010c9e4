/* clock.c - a clock that moves by a microsecond whenever it is looked at, for tests that are linked with
 * --wrap=clock_gettime: what limits leave undone then does not depend on how busy the machine is. */
#include <stdatomic.h>
#include <time.h>

int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    static atomic_long looks;
    long now = atomic_fetch_add(&looks, 1);
    (void)id;
    *t = (struct timespec){1 + now / 1000000, now % 1000000 * 1000};
    return 0;
}
