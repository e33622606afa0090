/* SPDX-License-Identifier: Apache-2.0
 *
 * pawl.hpp - pawl.h for C++11 and later: objects that close, free and release by themselves, and exceptions.
 *
 *     pawlpp::client client;                          // $PAWL_URL, else local:
 *     pawlpp::mutex nightly(client, "nightly");
 *     {
 *         pawlpp::hold<pawlpp::mutex> hold(nightly);    // waits; or hold(nightly, 10000): at most ten seconds
 *         write_report(hold.token());
 *         hold.release();                           // throws if the hold was lost; the destructor releases, and says nothing
 *     }
 *
 * Locks are Lockable and TimedLockable, a rwlock SharedLockable, too: std::unique_lock<pawlpp::mutex> works. Then unlock() says nothing of
 * a loss; ask state() or remaining_ms() before. A lock must not outlive its client. pawl.h says what the functions promise.
 *
 * In C++ the function pawl_state() hides the enumeration of the same name: here it is pawlpp::hold_state. And the namespace can't be called
 * pawl, since struct pawl has the name.
 */
#ifndef PAWL_HPP
#define PAWL_HPP

#include <chrono>
#include <memory>
#include <stdexcept>

#include "pawl.h"

namespace pawlpp {

using hold_state = enum ::pawl_state;

/* Its text is the library's: what is wrong, and what to do. */
class error : public std::runtime_error {
  public:
    explicit error(const pawl_error &why) : std::runtime_error(why.text), code_(why.code) {
    }
    int code() const noexcept { /* PAWL_ELOST, ... */
        return code_;
    }

  private:
    int code_;
};

namespace detail {

struct close {
    void operator()(::pawl *client) const noexcept {
        pawl_close(client);
    }
    void operator()(pawl_lock *lock) const noexcept {
        pawl_lock_free(lock);
    }
};

inline void check(int code, const pawl_error &why) {
    if (code < 0)
        throw error(why);
}

/* Of an acquire: false if it was not in time. */
inline bool taken(int code, const pawl_error &why) {
    if (code == PAWL_EHELD || code == PAWL_ETIMEOUT)
        return false;
    check(code, why);
    return true;
}

/* Rounded up: less than a millisecond is not a try. What is longer than an int64_t can say is for ever. */
template <typename Rep, typename Period> int64_t milliseconds(const std::chrono::duration<Rep, Period> &span) {
    long double exact = std::chrono::duration<long double, std::milli>(span).count();
    int64_t whole;

    if (!(exact > 0)) /* also where it is not a number */
        return 0;
    if (exact >= static_cast<long double>(PAWL_FOREVER))
        return PAWL_FOREVER;
    whole = static_cast<int64_t>(exact);
    return static_cast<long double>(whole) < exact ? whole + 1 : whole;
}

} // namespace detail

class client {
  public:
    explicit client(const char *url = nullptr, const pawl_options *options = nullptr) {
        ::pawl *opened = nullptr;
        pawl_error why;

        detail::check(pawl_open(url, options, &opened, &why), why);
        handle_.reset(opened);
    }
    ::pawl *get() const noexcept {
        return handle_.get();
    }

  private:
    std::unique_ptr<::pawl, detail::close> handle_;
};

/* What the three kinds of locks have in common. */
class lock_base {
  public:
    pawl_lock *get() const noexcept {
        return handle_.get();
    }
    void lock() {
        pawl_error why;

        detail::check(pawl_acquire(get(), PAWL_FOREVER, &why), why);
    }
    bool try_lock() {
        return try_lock_ms(0);
    }
    bool try_lock_ms(int64_t timeout_ms) {
        pawl_error why;

        return detail::taken(pawl_acquire(get(), timeout_ms, &why), why);
    }
    template <typename Rep, typename Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &span) {
        return try_lock_ms(detail::milliseconds(span));
    }
    template <typename Clock, typename Span> bool try_lock_until(const std::chrono::time_point<Clock, Span> &when) {
        auto now = Clock::now();

        return when > now ? try_lock_for(when - now) : try_lock();
    }
    void unlock() noexcept { /* says nothing of a loss, nor that this thread does not hold it */
        pawl_release(get(), nullptr);
    }
    void release() { /* the same, and throws: PAWL_ELOST, PAWL_ENOTOWNER, ... */
        pawl_error why;

        detail::check(pawl_release(get(), &why), why);
    }
    void extend(int64_t max_hold_ms, int64_t timeout_ms = PAWL_FOREVER) {
        pawl_error why;

        detail::check(pawl_extend(get(), max_hold_ms, timeout_ms, &why), why);
    }
    void set_max_hold(int64_t max_hold_ms) {
        pawl_error why;

        detail::check(pawl_set_max_hold(get(), max_hold_ms, &why), why);
    }
    void set_label(const char *label) { /* nullptr: the client's */
        pawl_error why;

        detail::check(pawl_set_label(get(), label, &why), why);
    }
    uint64_t token() const noexcept {
        return pawl_token(get());
    }
    int64_t remaining_ms() const noexcept {
        return pawl_remaining_ms(get());
    }
    hold_state state() const noexcept {
        return ::pawl_state(get());
    }

  protected:
    void take(int code, pawl_lock *made, const pawl_error &why) {
        detail::check(code, why);
        handle_.reset(made);
    }

  private:
    std::unique_ptr<pawl_lock, detail::close> handle_;
};

class mutex : public lock_base {
  public:
    mutex(const client &where, const char *name, unsigned flags = 0) {
        pawl_lock *made = nullptr;
        pawl_error why;
        int code = pawl_mutex_new(where.get(), name, flags, &made, &why);

        take(code, made, why);
    }
};

class rwlock : public lock_base {
  public:
    rwlock(const client &where, const char *name, unsigned flags = 0) {
        pawl_lock *made = nullptr;
        pawl_error why;
        int code = pawl_rwlock_new(where.get(), name, flags, &made, &why);

        take(code, made, why);
    }
    void lock_shared() {
        pawl_error why;

        detail::check(pawl_acquire_shared(get(), PAWL_FOREVER, &why), why);
    }
    bool try_lock_shared() {
        pawl_error why;

        return detail::taken(pawl_acquire_shared(get(), 0, &why), why);
    }
    void unlock_shared() noexcept {
        pawl_release_shared(get(), nullptr);
    }
    void downgrade() {
        pawl_error why;

        detail::check(pawl_downgrade(get(), &why), why);
    }
};

class semaphore : public lock_base {
  public:
    semaphore(const client &where, const char *name, unsigned limit, unsigned flags = 0) {
        pawl_lock *made = nullptr;
        pawl_error why;
        int code = pawl_semaphore_new(where.get(), name, limit, flags, &made, &why);

        take(code, made, why);
    }
    bool try_lock_permits(unsigned permits, int64_t timeout_ms = PAWL_FOREVER) {
        pawl_error why;

        return detail::taken(pawl_acquire_permits(get(), permits, timeout_ms, &why), why);
    }
};

namespace detail {

/* One acquire of a lock, which ends with the object. */
template <typename Lock> class held {
  public:
    held(const held &) = delete;
    held &operator=(const held &) = delete;
    /* Throws if the hold was lost; it is over then, too. Only PAWL_ENOTOWNER, on another thread than the one that took it, leaves it as it
     * was. */
    void release() {
        pawl_error why;
        int code = lock_ ? pawl_release(lock_->get(), &why) : 0;

        if (code != PAWL_ENOTOWNER)
            lock_ = nullptr;
        check(code, why);
    }
    /* Let it last so long from now: pawl_extend(). */
    void extend(int64_t max_hold_ms, int64_t timeout_ms = PAWL_FOREVER) {
        if (lock_)
            lock_->extend(max_hold_ms, timeout_ms);
    }
    uint64_t token() const noexcept {
        return lock_ ? lock_->token() : 0;
    }
    int64_t remaining_ms() const noexcept {
        return lock_ ? lock_->remaining_ms() : 0;
    }
    hold_state state() const noexcept {
        return lock_ ? lock_->state() : PAWL_NOT_HELD;
    }

  protected:
    explicit held(Lock &lock) : lock_(&lock) {
    }
    ~held() {
        if (lock_)
            lock_->unlock();
    }
    /* Of the constructor: what was not taken is not released. */
    void taken(int code, const pawl_error &why) {
        if (code < 0)
            lock_ = nullptr;
        check(code, why);
    }

  private:
    Lock *lock_;
};

} // namespace detail

/* Held until its end. Not in time: it throws, PAWL_EHELD or PAWL_ETIMEOUT.
 *
 * It belongs to the thread that made it, as the lock does: where another thread destroys it, the lock stays held, and nobody is told. A
 * hold that is to move among threads needs a lock with PAWL_TASK. */
template <typename Lock> class hold : public detail::held<Lock> {
  public:
    explicit hold(Lock &lock, int64_t timeout_ms = PAWL_FOREVER) : detail::held<Lock>(lock) {
        pawl_error why;

        this->taken(pawl_acquire(lock.get(), timeout_ms, &why), why);
    }
};

/* The same for several permits of a semaphore, at once or not at all. Those of one thread end in the opposite order. */
class permits : public detail::held<semaphore> {
  public:
    permits(semaphore &from, unsigned count, int64_t timeout_ms = PAWL_FOREVER) : detail::held<semaphore>(from) {
        pawl_error why;

        this->taken(pawl_acquire_permits(from.get(), count, timeout_ms, &why), why);
    }
};

} // namespace pawlpp

#endif
