/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads - the handles of one lock object: each thread that holds has its own, which counts how often.
 */
package org.apache.curator.framework.recipes.locks;

import com.sun.jna.Memory;
import com.sun.jna.Pointer;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;

final class Threads {
    private static final class Held {
        Pointer handle;
        int exclusive, shared;
    }

    private final Pawl session;
    private final Pawl.Make make;
    private final ConcurrentHashMap<Thread, Held> holds = new ConcurrentHashMap<>();
    final String path;

    Threads(CuratorFramework client, String path, Pawl.Make make) {
        this.session = Pawl.of(client);
        this.path = Pawl.path(client, path);
        this.make = make;
    }

    boolean acquire(boolean shared, long time, TimeUnit unit) throws Exception {
        Held held = holds.getOrDefault(Thread.currentThread(), new Held());
        long ms = unit == null ? Pawl.FOREVER : unit.toMillis(time);
        Pawl.Acquire acquire = shared ? Pawl.CALLS::pawl_acquire_shared : Pawl.CALLS::pawl_acquire;
        Pointer handle = session.acquire(path, held.handle, ms, make, acquire);
        if (handle == null)
            return false;
        held.handle = handle;
        if (shared)
            held.shared++;
        else
            held.exclusive++;
        holds.put(Thread.currentThread(), held);
        return true;
    }

    void release(boolean shared) {
        Held held = holds.get(Thread.currentThread());
        if (held == null || (shared ? held.shared : held.exclusive) == 0)
            throw new IllegalMonitorStateException("this thread does not hold " + path);
        Memory error = Pawl.error();
        if (shared) {
            held.shared--;
            Pawl.CALLS.pawl_release_shared(held.handle, error); // of a hold that was lost it says so; Curator does not
        } else {
            held.exclusive--;
            Pawl.CALLS.pawl_release(held.handle, error);
        }
        if (held.shared + held.exclusive == 0) {
            holds.remove(Thread.currentThread());
            Pawl.CALLS.pawl_lock_free(held.handle);
        }
    }

    boolean any(boolean shared) {
        return holds.values().stream().anyMatch(held -> (shared ? held.shared : held.exclusive) > 0);
    }

    boolean mine(boolean shared) {
        Held held = holds.get(Thread.currentThread());
        return held != null && (shared ? held.shared : held.exclusive) > 0;
    }
}
