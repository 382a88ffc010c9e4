/* thread_worth.c - when it pays to wake threads. Alone in its file, so that the linker can replace it in tests. */
#include "thread_pool.h"

double wv_thread_pool_worth(void)
{
    return 5e5;
}
