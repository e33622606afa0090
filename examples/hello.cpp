/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.cpp - pawl in C++: c++ hello.cpp $(pkg-config --cflags --libs pawl). What is after the first lock shows the rest of pawl.hpp.
 */
#include <chrono>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <pawl.hpp>

/* What must be so. */
static void expect(bool is_so, const char *what) {
    if (!is_so)
        throw std::runtime_error(what);
}

/* In a thread of its own, since one thread that holds and waits for itself is told so. */
template <typename Function> static bool elsewhere(Function function) {
    bool answer = false;

    std::thread([&] { answer = function(); }).join();
    return answer;
}

static void read_and_write(pawlpp::client &client, pawlpp::client &other) {
    pawlpp::rwlock book(client, "book"), same(other, "book");

    book.lock_shared();
    expect(elsewhere([&]() -> bool {
               bool reads = same.try_lock_shared();

               if (reads)
                   same.unlock_shared();
               return reads;
           }),
           "readers stand beside each other");
    expect(!elsewhere([&] { return same.try_lock(); }), "a writer waits for the readers");
    book.unlock_shared();
    pawlpp::hold<pawlpp::rwlock> writing(book, 10000);
    expect(!elsewhere([&] { return same.try_lock_shared(); }), "readers wait for the writer");
}

static void take_permits(pawlpp::client &client, pawlpp::client &other) {
    pawlpp::semaphore seats(client, "seats", 3), same(other, "seats", 3);
    {
        pawlpp::permits two(seats, 2);

        expect(two.state() == PAWL_HELD && two.token() > 0, "two permits are held");
        expect(!elsewhere([&] { return same.try_lock_permits(2, 0); }), "one is left");
    }
    expect(elsewhere([&]() -> bool {
               pawlpp::permits all(same, 3, 10000);
               return all.remaining_ms() > 0;
           }),
           "all came back");
}

static void hold_for_long(pawlpp::client &client, pawlpp::client &other) {
    pawlpp::mutex mine(client, "long"), others(other, "long");

    mine.set_max_hold(30000);
    pawlpp::hold<pawlpp::mutex> hold(mine);
    hold.extend(60000);
    expect(hold.state() == PAWL_HELD && hold.remaining_ms() > 30000, "it has another limit");
    expect(elsewhere([&] { return !others.try_lock_for(std::chrono::duration<double>(1e-9)); }), "a moment is waited for");
    expect(elsewhere([&] { return !others.try_lock_until(std::chrono::steady_clock::time_point::min()); }), "the past is a try");
    std::thread patient([&] {
        expect(others.try_lock_for(std::chrono::hours::max()), "as long as can be said is for ever");
        others.unlock();
    });

    std::this_thread::sleep_for(std::chrono::milliseconds(20)); /* by then it waits */
    hold.release();
    patient.join();
}

/* A hold belongs to the thread that took it. */
static void release_elsewhere(pawlpp::client &client) {
    pawlpp::mutex mine(client, "mine");
    pawlpp::hold<pawlpp::mutex> hold(mine);

    expect(elsewhere([&]() -> bool {
               try {
                   hold.release();
               } catch (const pawlpp::error &why) {
                   return why.code() == PAWL_ENOTOWNER;
               }
               return false;
           }),
           "another thread may not release it");
    expect(hold.state() == PAWL_HELD, "and it goes on");
    hold.release();
}

int main() {
    try {
        pawlpp::client client, other;
        pawlpp::mutex hello(client, "hello"), elsewhere(other, "hello");
        uint64_t token;
        {
            pawlpp::hold<pawlpp::mutex> hold(hello);

            token = hold.token();
            std::cout << "held, with token " << token << "\n";
            std::thread([&] {
                if (elsewhere.try_lock_for(std::chrono::milliseconds(20)))
                    std::terminate(); /* two would hold it */
            }).join();
            hold.release();
        }
        std::unique_lock<pawlpp::mutex> again(elsewhere);
        enum pawl_state plain = pawl_state(elsewhere.get()); /* as in C: the word enum tells the type from the function */

        if (again.mutex()->token() <= token || again.mutex()->state() != PAWL_HELD || plain != PAWL_HELD)
            return 1;
        again.unlock();
        read_and_write(client, other);
        take_permits(client, other);
        hold_for_long(client, other);
        release_elsewhere(client);
    } catch (const std::exception &why) {
        std::cerr << why.what() << "\n";
        return 1;
    }
    return 0;
}
