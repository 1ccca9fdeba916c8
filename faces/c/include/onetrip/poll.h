/* onetrip in a loop of poll(2): several clients, and descriptors of one's own. Header-only.
 *
 *     ot_poll loop = {0};
 *     ot_poll_add(&loop, db);
 *     ot_poll_add(&loop, cache);
 *     while (running) ot_poll_once(&loop, -1);
 *
 * Calls back by ot_call_then and its like, from inside of ot_poll_once. */
#ifndef ONETRIP_POLL_H
#define ONETRIP_POLL_H

#include <onetrip/onetrip.h>
#include <poll.h>

#define OT_POLL_MAX 64

typedef struct ot_poll {
  ot_client *clients[OT_POLL_MAX];
  nfds_t count;
} ot_poll;

/* Watches a client from now on. -1 if there are too many. */
static inline int ot_poll_add(ot_poll *loop, ot_client *client) {
  if (loop->count >= OT_POLL_MAX) return -1;
  loop->clients[loop->count++] = client;
  return 0;
}

/* Watches it no more: before ot_close. */
static inline void ot_poll_remove(ot_poll *loop, const ot_client *client) {
  nfds_t kept = 0;
  for (nfds_t i = 0; i < loop->count; i++) {
    if (loop->clients[i] != client) loop->clients[kept++] = loop->clients[i];
  }
  loop->count = kept;
}

/* Waits until a client has something to do, for this time at most, and does it. `fds` are watched as
 * well (NULL and 0 for none), and their `revents` set. Returns how many of all were ready, or -1 with
 * the errno of poll. */
static inline int ot_poll_with(ot_poll *loop, struct pollfd *fds, nfds_t fds_len, int timeout_ms) {
  struct pollfd all[2 * OT_POLL_MAX];
  nfds_t of_clients = loop->count, i;
  int ready;
  if (fds_len > OT_POLL_MAX) fds_len = OT_POLL_MAX;
  for (i = 0; i < of_clients; i++) {
    int next = ot_timeout_ms(loop->clients[i]);
    if (next >= 0 && (timeout_ms < 0 || next < timeout_ms)) timeout_ms = next;
    all[i].fd = ot_fd(loop->clients[i]);
    all[i].events = (short)ot_events(loop->clients[i]);
    all[i].revents = 0;
  }
  for (i = 0; i < fds_len; i++) all[of_clients + i] = fds[i];
  ready = poll(all, of_clients + fds_len, timeout_ms);
  if (ready < 0) return ready;
  for (i = 0; i < fds_len; i++) fds[i].revents = all[of_clients + i].revents;
  /* A callback may add or remove clients: those that were there are driven. */
  for (i = of_clients; i-- > 0;) {
    if (i < loop->count) ot_drive(loop->clients[i], all[i].revents, NULL);
  }
  return ready;
}

static inline int ot_poll_once(ot_poll *loop, int timeout_ms) {
  return ot_poll_with(loop, NULL, 0, timeout_ms);
}

#endif
