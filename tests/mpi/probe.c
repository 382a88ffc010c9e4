/* probe.c - do processes of MPI start here, and reach each other? Of wvgd it needs nothing. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank = 0, count = 0, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum != count * (count - 1) / 2;
}
