// onetrip for C++17: handles that free themselves, errors as exceptions, rows as ranges; and with
// C++20 `co_await` of a call. It decides nothing: onetrip.h says what each function does.
//
//     onetrip::Client db = onetrip::Client::postgres("postgres://alice@localhost/shop");
//     for (auto row : db.query("select id, name from item where price < $1", 10).get())
//       std::cout << row.get<int>(0) << ' ' << row.get<std::string>("name") << '\n';
//
// Objects can be moved and not copied. One that was moved from can be assigned to or destroyed. What a
// view (std::string_view, Row, Reply) shows belongs to its Result, which must outlive it.
#ifndef ONETRIP_HPP
#define ONETRIP_HPP

#include <onetrip/onetrip.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <coroutine>
#endif

namespace onetrip {

// What failed, and whether it took effect.
class Error : public std::exception {
 public:
  explicit Error(const ot_error& error) : error_(error) {}
  explicit Error(ot_status status) : error_(OT_ERROR_INIT) {
    error_.status = status;
    error_.outcome = OT_NOT_SENT;
    std::string_view name = ot_status_name(status);
    name.copy(error_.code, sizeof error_.code - 1);
    name.copy(error_.message, sizeof error_.message - 1);
  }
  const char* what() const noexcept override { return error_.message; }
  ot_status status() const noexcept { return error_.status; }
  ot_outcome outcome() const noexcept { return error_.outcome; }
  std::string_view code() const noexcept { return error_.code; }
  const ot_error& fields() const noexcept { return error_; }

 private:
  ot_error error_;
};

inline void check(ot_status status) {
  if (status != OT_OK) throw Error(status);
}

inline void check(ot_status status, const ot_error& error) {
  if (status != OT_OK) throw Error(error);
}

inline std::string_view view(ot_text text) { return {text.ptr, text.len}; }

// The bytes of a bytea.
struct Bytes {
  std::string_view bytes;
};

// A parameter or an argument. It borrows texts until the call that it is given to returns.
class Value {
 public:
  Value(std::nullptr_t) : value_(OT_NIL) {}
  Value(bool value) : value_(OT_BOOL(value)) {}
  Value(std::string_view text) : value_(OT_TEXT(text.data() ? text.data() : "", text.size())) {}
  Value(const std::string& text) : Value(std::string_view(text)) {}
  Value(const char* text) : Value(std::string_view(text)) {}
  Value(Bytes of) : value_(OT_BYTES(of.bytes.data() ? of.bytes.data() : "", of.bytes.size())) {}
  // Whole numbers beyond 64 bits with a sign go as texts by std::to_string.
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                          (std::is_signed_v<T> || sizeof(T) < 8),
                                      int> = 0>
  Value(T value) : value_(OT_I64(static_cast<std::int64_t>(value))) {}
  template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Value(T value) : value_(OT_F64(static_cast<double>(value))) {}
  template <class T>
  Value(const std::optional<T>& value) : Value(value ? Value(*value) : Value(nullptr)) {}
  const ot_value& raw() const { return value_; }

 private:
  ot_value value_;
};

namespace detail {

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* it) const { Free(it); }
};

template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freed<T, Free>>;

// The values of a call, one behind the other.
class Args {
 public:
  template <class... T>
  explicit Args(const T&... values) : values_{Value(values).raw()...} {}
  const ot_value* data() const { return values_.data(); }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<ot_value> values_;
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
ot_status read(const ot_result* of, std::size_t row, std::size_t column, T& to) {
  if constexpr (std::is_same_v<T, bool>) {
    std::int32_t truth = 0;
    ot_status status = ot_get_bool(of, row, column, &truth);
    to = truth != 0;
    return status;
  } else if constexpr (std::is_integral_v<T>) {
    std::int64_t number = 0;
    ot_status status = ot_get_i64(of, row, column, &number);
    to = static_cast<T>(number);
    bool fits = static_cast<std::int64_t>(to) == number && (number < 0) == (to < T{});
    return status == OT_OK && !fits ? static_cast<ot_status>(OT_CONVERSION) : status;
  } else if constexpr (std::is_floating_point_v<T>) {
    double number = 0;
    ot_status status = ot_get_f64(of, row, column, &number);
    to = static_cast<T>(number);
    return status;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    ot_text bytes = {"", 0};
    ot_status status = ot_get_bytes(of, row, column, &bytes);
    to = Bytes{view(bytes)};
    return status;
  } else {
    static_assert(std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>,
                  "a value is read as bool, a number, std::string, std::string_view, Bytes, or a "
                  "std::optional of these");
    ot_text text = {"", 0};
    ot_status status = ot_get_text(of, row, column, &text);
    to = T(view(text));
    return status;
  }
}

}  // namespace detail

// One row of a result.
class Row {
 public:
  Row(const ot_result* of, std::size_t at) : of_(of), at_(at) {}

  std::size_t size() const { return ot_columns(of_); }
  bool is_null(std::size_t column) const {
    ot_text text;
    ot_status status = ot_get_text(of_, at_, column, &text);
    return status == OT_NULL || (check(status), false);
  }

  // A value; std::optional<T> where it may be NULL.
  template <class T>
  T get(std::size_t column) const {
    if constexpr (detail::IsOptional<T>::value) {
      typename T::value_type value{};
      ot_status status = detail::read(of_, at_, column, value);
      if (status == OT_NULL) return std::nullopt;
      check(status);
      return value;
    } else {
      T value{};
      check(detail::read(of_, at_, column, value));
      return value;
    }
  }
  template <class T>
  T get(std::string_view column) const {
    return get<T>(place(column));
  }

 private:
  std::size_t place(std::string_view name) const {
    for (std::size_t column = 0; column < size(); column++) {
      ot_text text;
      check(ot_column_name(of_, column, &text));
      if (view(text) == name) return column;
    }
    throw Error(OT_RANGE);
  }

  const ot_result* of_;
  std::size_t at_;
};

// The rows of a result, and what stands beside them. It borrows the Result.
class Rows {
 public:
  explicit Rows(const ot_result* of) : of_(of) {}

  class iterator {
   public:
    using value_type = Row;
    using reference = Row;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    iterator() = default;
    iterator(const ot_result* of, std::size_t at) : of_(of), at_(at) {}
    Row operator*() const { return Row(of_, at_); }
    iterator& operator++() { return at_++, *this; }
    iterator operator++(int) { return iterator(of_, at_++); }
    bool operator==(const iterator& other) const { return at_ == other.at_; }
    bool operator!=(const iterator& other) const { return at_ != other.at_; }

   private:
    const ot_result* of_ = nullptr;
    std::size_t at_ = 0;
  };

  iterator begin() const { return iterator(of_, 0); }
  iterator end() const { return iterator(of_, size()); }
  std::size_t size() const { return ot_rows(of_); }
  bool empty() const { return size() == 0; }
  Row operator[](std::size_t row) const { return Row(of_, row); }
  std::size_t columns() const { return ot_columns(of_); }
  std::uint64_t affected() const { return ot_affected(of_); }
  std::string_view tag() const {
    ot_text text;
    check(ot_tag(of_, &text));
    return view(text);
  }

 protected:
  const ot_result* of_;
};

// A reply of Redis. It borrows the Result.
class Reply {
 public:
  explicit Reply(const ot_reply* of) : of_(of) {}
  std::int32_t kind() const { return ot_reply_kind(of_); }
  bool is_nil() const { return kind() == OT_REPLY_NIL; }
  bool is_error() const { return kind() == OT_REPLY_ERROR; }
  std::string_view text() const {
    ot_text text;
    check(ot_reply_text(of_, &text));
    return view(text);
  }
  std::int64_t number() const {
    std::int64_t number;
    check(ot_reply_i64(of_, &number));
    return number;
  }
  double real() const {
    double number;
    check(ot_reply_f64(of_, &number));
    return number;
  }
  std::size_t size() const { return ot_reply_size(of_); }
  Reply operator[](std::size_t at) const {
    const ot_reply* item = nullptr;
    check(ot_reply_at(of_, at, &item));
    return Reply(item);
  }

 private:
  const ot_reply* of_;
};

// What was answered.
class Result : public Rows {
 public:
  explicit Result(ot_result* of) : Rows(of), owned_(of) {}
  std::size_t parts() const { return ot_parts(of_); }
  Rows part(std::size_t at) const {
    const ot_result* part = nullptr;
    check(ot_part(of_, at, &part));
    return Rows(part);
  }
  Reply reply(std::size_t at = 0) const {
    const ot_reply* reply = nullptr;
    check(ot_result_reply(of_, at, &reply));
    return Reply(reply);
  }
  std::string_view copy_data() const {
    ot_text text;
    check(ot_copy_data(of_, &text));
    return view(text);
  }

 private:
  detail::Owned<ot_result, ot_result_free> owned_;
};

// A call on its way. One that is destroyed is given up.
class Call {
 public:
  explicit Call(ot_call* call) : call_(call) {}

  // Waits for its end. Throws Error.
  Result get() {
    std::optional<Result> result = get_within(-1);
    if (!result) throw Error(OT_AGAIN);
    return std::move(*result);
  }
  // The same for this time at most; none if it is still on its way.
  std::optional<Result> get_within(std::int32_t timeout_ms) {
    ot_error error = OT_ERROR_INIT;
    ot_result* result = nullptr;
    ot_status status = ot_wait(call_.get(), timeout_ms, &result, &error);
    if (status == OT_AGAIN) return std::nullopt;
    if (status != OT_BUSY && status != OT_FORKED) (void)call_.release();
    check(status, error);
    return Result(result);
  }
  bool is_over() const { return ot_call_is_over(call_.get()) != 0; }
  ot_call* raw() const { return call_.get(); }

#if __cplusplus >= 202002L
  // `co_await call`: goes on in the loop that drives the client. Throws Error.
  auto operator co_await() & { return Awaiter{this}; }
  auto operator co_await() && { return Awaiter{this}; }

 private:
  struct Awaiter {
    Call* call;
    bool await_ready() const { return call->is_over(); }
    void await_suspend(std::coroutine_handle<> handle) {
      auto go_on = [](void* address) { std::coroutine_handle<>::from_address(address).resume(); };
      check(ot_call_then(call->raw(), go_on, handle.address()));
    }
    Result await_resume() { return call->get(); }
  };
#endif

 private:
  detail::Owned<ot_call, ot_call_free> call_;
};

// What leaves together.
class Pipe {
 public:
  explicit Pipe(ot_pipe* pipe) : pipe_(pipe) {}
  template <class... T>
  Pipe& query(std::string_view sql, const T&... values) {
    detail::Args args(values...);
    check(ot_pipe_query(pipe_.get(), sql.data(), sql.size(), args.data(), args.size()));
    return *this;
  }
  template <class... T>
  Pipe& command(const T&... values) {
    detail::Args args(values...);
    check(ot_pipe_command(pipe_.get(), args.data(), args.size()));
    return *this;
  }
  Call sync() {
    ot_call* call = nullptr;
    check(ot_pipe_sync(pipe_.get(), &call));
    return Call(call);
  }
  Call send() {
    ot_call* call = nullptr;
    check(ot_pipe_send(pipe_.get(), &call));
    (void)pipe_.release();
    return Call(call);
  }

 private:
  detail::Owned<ot_pipe, ot_pipe_free> pipe_;
};

// Rows or data of a COPY as they come: `while (auto some = stream.next()) for (auto row : *some)`.
class Stream {
 public:
  explicit Stream(ot_stream* stream) : stream_(stream) {}
  std::optional<Result> next() {
    ot_error error = OT_ERROR_INIT;
    ot_result* result = nullptr;
    ot_status status = ot_stream_next(stream_.get(), -1, &result, &error);
    if (status == OT_DONE) return std::nullopt;
    check(status, error);
    return Result(result);
  }

 private:
  detail::Owned<ot_stream, ot_stream_close> stream_;
};

// A connection of one's own. A transaction that is open when it is destroyed is rolled back.
class Session {
 public:
  explicit Session(ot_session* session) : session_(session) {}
  template <class... T>
  Call query(std::string_view sql, const T&... values) {
    detail::Args args(values...);
    ot_call* call = nullptr;
    check(ot_session_query(raw(), sql.data(), sql.size(), args.data(), args.size(), nullptr, &call));
    return Call(call);
  }
  template <class... T>
  Stream stream(std::string_view sql, const T&... values) {
    detail::Args args(values...);
    ot_stream* stream = nullptr;
    check(ot_stream_open(raw(), sql.data(), sql.size(), args.data(), args.size(), &stream));
    return Stream(stream);
  }
  void begin(const ot_modes& modes = OT_MODES_INIT) { check(ot_begin(raw(), &modes)); }
  Call commit() { return act(ot_commit); }
  Call rollback() { return act(ot_rollback); }
  void savepoint() { check(ot_savepoint(raw())); }
  Call release() { return act(ot_release); }
  void undo() { check(ot_undo(raw())); }
  ot_session* raw() const { return session_.get(); }

 private:
  Call act(ot_status (*what)(ot_session*, ot_call**)) {
    ot_call* call = nullptr;
    check(what(raw(), &call));
    return Call(call);
  }
  detail::Owned<ot_session, ot_session_close> session_;
};

// A client of PostgreSQL or Redis. It is closed with its object; `close` says what became of that.
class Client {
 public:
  static Client postgres(std::string_view settings, std::int32_t timeout_ms = 10000) {
    return opened(ot_pg_connect, settings, timeout_ms);
  }
  static Client redis(std::string_view settings, std::int32_t timeout_ms = 10000) {
    return opened(ot_redis_connect, settings, timeout_ms);
  }
  explicit Client(ot_client* client) : client_(client) {}

  template <class... T>
  Call query(std::string_view sql, const T&... values) {
    return query_with(OT_OPTIONS_INIT, sql, values...);
  }
  template <class... T>
  Call query_with(const ot_options& options, std::string_view sql, const T&... values) {
    detail::Args args(values...);
    ot_call* call = nullptr;
    check(ot_query(raw(), sql.data(), sql.size(), args.data(), args.size(), &options, &call));
    return Call(call);
  }
  template <class... T>
  Call command(const T&... values) {
    detail::Args args(values...);
    ot_call* call = nullptr;
    check(ot_command(raw(), args.data(), args.size(), nullptr, &call));
    return Call(call);
  }
  Pipe pipe(const ot_options& options = OT_OPTIONS_INIT) {
    ot_pipe* pipe = nullptr;
    check(ot_pipe_begin(raw(), &options, &pipe));
    return Pipe(pipe);
  }
  Session session() {
    ot_session* session = nullptr;
    check(ot_session_open(raw(), &session));
    return Session(session);
  }
  void flush() {
    ot_error error = OT_ERROR_INIT;
    check(ot_flush(raw(), &error), error);
  }
  void drive() {
    ot_error error = OT_ERROR_INIT;
    check(ot_drive(raw(), 0, &error), error);
  }
  void close(std::int32_t timeout_ms = 5000) {
    ot_error error = OT_ERROR_INIT;
    check(ot_close(client_.release(), timeout_ms, &error), error);
  }
  ot_client* raw() const { return client_.get(); }

 private:
  static Client opened(ot_status (*open)(const char*, std::size_t, std::int32_t, ot_client**, ot_error*),
                       std::string_view settings, std::int32_t timeout_ms) {
    ot_error error = OT_ERROR_INIT;
    ot_client* client = nullptr;
    check(open(settings.data(), settings.size(), timeout_ms, &client, &error), error);
    return Client(client);
  }
  static void closed(ot_client* client) { ot_close(client, 5000, nullptr); }
  detail::Owned<ot_client, closed> client_;
};

}  // namespace onetrip

#endif
