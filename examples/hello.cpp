/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.cpp - pawl in C++: c++ hello.cpp $(pkg-config --cflags --libs pawl)
 */
#include <chrono>
#include <iostream>
#include <mutex>
#include <thread>

#include <pawl.hpp>

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
    } catch (const pawlpp::error &why) {
        std::cerr << why.what() << "\n";
        return 1;
    }
    return 0;
}
