/* onetrip in a loop of libuv. Header-only; link with libuv.
 *
 *     ot_uv db_in_loop;
 *     ot_uv_attach(&db_in_loop, uv_default_loop(), db);
 *     ... ot_query, ot_call_then ...
 *     ot_uv_detach(&db_in_loop, closed);   before ot_close
 *
 * What was submitted in one turn of the loop leaves together at its end. */
#ifndef ONETRIP_UV_H
#define ONETRIP_UV_H

#include <onetrip/onetrip.h>
#include <uv.h>

typedef struct ot_uv {
  ot_client *client;
  uv_poll_t poll;
  uv_timer_t timer;
  uv_prepare_t prepare;
  int open; /* handles that libuv still has */
  void (*closed)(struct ot_uv *);
  void *data; /* its user's */
} ot_uv;

static inline void ot_uv_drive(ot_uv *it) { ot_drive(it->client, 0, NULL); }

static inline void ot_uv_on_poll(uv_poll_t *poll, int status, int events) {
  (void)status, (void)events;
  ot_uv_drive((ot_uv *)poll->data);
}

static inline void ot_uv_on_timer(uv_timer_t *timer) { ot_uv_drive((ot_uv *)timer->data); }

/* Before the loop waits: what was submitted goes out, and the timer is that of now. */
static inline void ot_uv_on_prepare(uv_prepare_t *prepare) {
  ot_uv *it = (ot_uv *)prepare->data;
  int timeout = ot_timeout_ms(it->client);
  if (timeout == 0) {
    ot_flush(it->client, NULL);
    timeout = ot_timeout_ms(it->client);
  }
  uv_timer_stop(&it->timer);
  if (timeout >= 0) uv_timer_start(&it->timer, ot_uv_on_timer, (uint64_t)timeout, 0);
}

/* Drives the client by this loop from now on. 0, or an error of libuv. */
static inline int ot_uv_attach(ot_uv *it, uv_loop_t *loop, ot_client *client) {
  int error = uv_poll_init(loop, &it->poll, ot_fd(client));
  it->client = client;
  it->open = 0;
  it->closed = NULL;
  if (error) return error;
  uv_timer_init(loop, &it->timer);
  uv_prepare_init(loop, &it->prepare);
  it->poll.data = it->timer.data = it->prepare.data = it;
  it->open = 3;
  uv_prepare_start(&it->prepare, ot_uv_on_prepare);
  return uv_poll_start(&it->poll, UV_READABLE, ot_uv_on_poll);
}

static inline void ot_uv_on_close(uv_handle_t *handle) {
  ot_uv *it = (ot_uv *)handle->data;
  if (--it->open == 0 && it->closed) it->closed(it);
}

/* Lets go of the loop. `closed` is called once libuv has let go as well: the client may be closed at
 * once, and `it` freed then. */
static inline void ot_uv_detach(ot_uv *it, void (*closed)(ot_uv *)) {
  it->closed = closed;
  if (it->open == 0) return;
  uv_poll_stop(&it->poll);
  uv_close((uv_handle_t *)&it->poll, ot_uv_on_close);
  uv_close((uv_handle_t *)&it->timer, ot_uv_on_close);
  uv_close((uv_handle_t *)&it->prepare, ot_uv_on_close);
}

#endif
