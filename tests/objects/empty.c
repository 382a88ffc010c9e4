/* empty.c - a shared object without a model in it. */
int nothing_of_use(void);

int nothing_of_use(void)
{
    return 0;
}
