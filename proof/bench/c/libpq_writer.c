/* A writer on libpq for the row failover_pause: it writes a row every few milliseconds, connects
 * anew when that fails, and prints the time and the server's port when the port is another one. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    PGconn *connection = NULL;
    int last = 0;
    if (argc != 3) return 2;
    for (;; usleep(5000)) {
        if (connection == NULL) connection = PQconnectdb(argv[1]);
        PGresult *result =
            PQstatus(connection) == CONNECTION_OK ? PQexec(connection, argv[2]) : NULL;
        if (PQresultStatus(result) == PGRES_TUPLES_OK) {
            int port = atoi(PQgetvalue(result, 0, 0));
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (port != last) {
                printf("%lld %d\n", now.tv_sec * 1000000LL + now.tv_nsec / 1000, port);
                fflush(stdout);
            }
            last = port;
        } else {
            PQfinish(connection);
            connection = NULL;
        }
        PQclear(result);
    }
}
