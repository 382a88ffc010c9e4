/* start.c - where wvgd begins. */
#include "program.h"

int main(int argc, char **argv)
{
    prepare_program();
    return run_program(argc, argv);
}
