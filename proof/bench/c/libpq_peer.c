/* The libpq side of select_100_one_sync: pipelines of prepared point selects with one sync point
 * each, every column decoded from its binary form.
 *
 * Reads lines "BATCHES BATCH_SIZE FIRST_ID ROWS" and answers each with
 * "WALL_NS CPU_NS CHECKSUM". The connection comes from the environment (PGHOST, PGPORT, ...), the
 * statement from the first argument. Both sides of the comparison fill a pipeline, wait for its
 * end, and fill the next. */
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <libpq-fe.h>

enum { COLUMNS = 6 };

static void fail(const char *what, const char *why) {
    fprintf(stderr, "libpq: %s: %s", what, why);
    exit(1);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t cpu_ns(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    uint64_t micros = (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    return seconds * 1000000000u + micros * 1000u;
}

static uint32_t read_u32(const char *bytes) {
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

static uint64_t read_u64(const char *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return be64toh(value);
}

/* Must agree with Item::checksum in src/item.rs. */
static uint64_t decode(PGconn *conn, const PGresult *result) {
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1
        || PQnfields(result) != COLUMNS) {
        fail("a select failed", PQerrorMessage(conn));
    }
    for (int column = 0; column < COLUMNS; column++) {
        if (PQgetisnull(result, 0, column)) fail("a select failed", "a column is NULL\n");
    }
    uint32_t id = read_u32(PQgetvalue(result, 0, 0));
    const char *name = PQgetvalue(result, 0, 1);
    int name_len = PQgetlength(result, 0, 1);
    uint64_t created = read_u64(PQgetvalue(result, 0, 2));
    uint64_t bits = read_u64(PQgetvalue(result, 0, 3));
    double price;
    memcpy(&price, &bits, sizeof price);
    int active = PQgetvalue(result, 0, 4)[0] != 0;
    const char *doc = PQgetvalue(result, 0, 5) + 1; /* behind the version of jsonb */
    int doc_len = PQgetlength(result, 0, 5) - 1;
    return id + (uint64_t)name_len + (unsigned char)name[0] + created + (uint64_t)(price * 100.0)
         + (uint64_t)active + (uint64_t)doc_len + (unsigned char)doc[0];
}

static uint64_t run_batch(PGconn *conn, int size, int first, int rows) {
    uint64_t checksum = 0;
    for (int i = 0; i < size; i++) {
        uint32_t id = htonl((uint32_t)((first + i) % rows + 1));
        const char *values[] = {(const char *)&id};
        const int lengths[] = {sizeof id}, formats[] = {1};
        if (!PQsendQueryPrepared(conn, "s", 1, values, lengths, formats, 1)) {
            fail("cannot send", PQerrorMessage(conn));
        }
    }
    if (!PQpipelineSync(conn)) fail("cannot sync", PQerrorMessage(conn));
    for (int i = 0; i < size; i++) {
        PGresult *result = PQgetResult(conn);
        checksum += decode(conn, result);
        PQclear(result);
        if (PQgetResult(conn) != NULL) fail("a select failed", "it has two results\n");
    }
    PGresult *sync = PQgetResult(conn);
    if (PQresultStatus(sync) != PGRES_PIPELINE_SYNC) fail("no sync", PQerrorMessage(conn));
    PQclear(sync);
    return checksum;
}

int main(int argc, char **argv) {
    if (argc != 2) fail("usage", "libpq_peer STATEMENT\n");
    PGconn *conn = PQconnectdb("");
    if (PQstatus(conn) != CONNECTION_OK) fail("cannot connect", PQerrorMessage(conn));
    PGresult *prepared = PQprepare(conn, "s", argv[1], 0, NULL);
    if (PQresultStatus(prepared) != PGRES_COMMAND_OK) fail("cannot prepare", PQerrorMessage(conn));
    PQclear(prepared);
    if (!PQenterPipelineMode(conn)) fail("no pipeline mode", PQerrorMessage(conn));
    printf("%d\n", PQlibVersion());
    fflush(stdout);

    int batches, size, first, rows;
    while (scanf("%d %d %d %d", &batches, &size, &first, &rows) == 4) {
        uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = cpu_ns(), checksum = 0;
        for (int batch = 0; batch < batches; batch++) {
            checksum += run_batch(conn, size, first + batch * size, rows);
        }
        cpu = cpu_ns() - cpu;
        wall = clock_ns(CLOCK_MONOTONIC) - wall;
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", wall, cpu, checksum);
        fflush(stdout);
    }
    PQfinish(conn);
    return 0;
}
