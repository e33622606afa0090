/* SPDX-License-Identifier: Apache-2.0
 *
 * points.h - put before every file that is compiled for the world: an atomic operation is a place where a thread may lose its turn.
 *
 * Threads of the world change hands only where they call the system. Code that agrees by atomic variables alone would never be interrupted
 * between two of them.
 */
#ifndef PAWL_SIM_POINTS_H
#define PAWL_SIM_POINTS_H

#include <stdatomic.h>

void sim_point(void);

#undef atomic_load
#define atomic_load(object) (sim_point(), atomic_load_explicit(object, memory_order_seq_cst))
#undef atomic_store
#define atomic_store(object, value) (sim_point(), atomic_store_explicit(object, value, memory_order_seq_cst))
#undef atomic_exchange
#define atomic_exchange(object, value) (sim_point(), atomic_exchange_explicit(object, value, memory_order_seq_cst))
#undef atomic_fetch_add
#define atomic_fetch_add(object, value) (sim_point(), atomic_fetch_add_explicit(object, value, memory_order_seq_cst))
#undef atomic_fetch_sub
#define atomic_fetch_sub(object, value) (sim_point(), atomic_fetch_sub_explicit(object, value, memory_order_seq_cst))
#undef atomic_compare_exchange_strong
#define atomic_compare_exchange_strong(object, expected, value)                                                                    \
    (sim_point(), atomic_compare_exchange_strong_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))
#undef atomic_compare_exchange_weak
#define atomic_compare_exchange_weak(object, expected, value)                                                                      \
    (sim_point(), atomic_compare_exchange_weak_explicit(object, expected, value, memory_order_seq_cst, memory_order_seq_cst))

#endif
