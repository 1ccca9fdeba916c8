/* onetrip in a loop of libevent (2.0 or newer). Header-only; link with libevent.
 *
 *     ot_libevent db_in_loop;
 *     ot_libevent_attach(&db_in_loop, base, db);
 *     ... ot_query, ot_call_then ...
 *     ot_libevent_update(&db_in_loop);     behind what was submitted outside of callbacks
 *     ot_libevent_detach(&db_in_loop);     before ot_close */
#ifndef ONETRIP_EVENT_H
#define ONETRIP_EVENT_H

#include <event2/event.h>
#include <onetrip/onetrip.h>

typedef struct ot_libevent {
  ot_client *client;
  struct event *readable;
  struct event *timer;
} ot_libevent;

/* Sets the timer to what the client waits for: at once, if something was submitted. */
static inline void ot_libevent_update(ot_libevent *it) {
  int timeout = ot_timeout_ms(it->client);
  if (timeout < 0) {
    evtimer_del(it->timer);
  } else {
    struct timeval wait;
    wait.tv_sec = timeout / 1000;
    wait.tv_usec = (timeout % 1000) * 1000;
    evtimer_add(it->timer, &wait);
  }
}

static inline void ot_libevent_on_event(evutil_socket_t fd, short what, void *user) {
  ot_libevent *it = (ot_libevent *)user;
  (void)fd, (void)what;
  ot_drive(it->client, 0, NULL);
  ot_libevent_update(it);
}

/* Drives the client by this loop from now on. 0, or -1 if there is no memory. */
static inline int ot_libevent_attach(ot_libevent *it, struct event_base *base, ot_client *client) {
  it->client = client;
  it->readable = event_new(base, ot_fd(client), EV_READ | EV_PERSIST, ot_libevent_on_event, it);
  it->timer = evtimer_new(base, ot_libevent_on_event, it);
  if (!it->readable || !it->timer || event_add(it->readable, NULL)) return -1;
  ot_libevent_update(it);
  return 0;
}

/* Lets go of the loop. Not from a callback of this client. */
static inline void ot_libevent_detach(ot_libevent *it) {
  if (it->readable) event_free(it->readable);
  if (it->timer) event_free(it->timer);
  it->readable = it->timer = NULL;
}

#endif
