/* SPDX-License-Identifier: Apache-2.0
 *
 * Pawl - libpawl for the classes beside it, which stand in for Curator's locks of the same names while Curator's own tests are played.
 *
 * A CuratorFramework has a Session: pawl clients of its own, one for each directory of locks. When the framework's session is lost, or it
 * is closed, these are closed, too, as if pawl had used that session; a thread that waits goes on waiting in the next one.
 */
package org.apache.curator.framework.recipes.locks;

import com.sun.jna.Callback;
import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.HashMap;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEventType;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.utils.ZKPaths;

final class Pawl {
    interface Loss extends Callback {
        void invoke(Pointer lock, int state, long token, Pointer why, Pointer data);
    }

    interface Calls extends Library {
        int pawl_open(String url, Pointer options, PointerByReference ret, Pointer error);
        void pawl_close(Pointer client);
        int pawl_mutex_new(Pointer client, String name, int flags, PointerByReference ret, Pointer error);
        int pawl_rwlock_new(Pointer client, String name, int flags, PointerByReference ret, Pointer error);
        int pawl_semaphore_new(Pointer client, String name, int limit, int flags, PointerByReference ret, Pointer error);
        void pawl_lock_free(Pointer lock);
        int pawl_acquire(Pointer lock, long ms, Pointer error);
        int pawl_acquire_shared(Pointer lock, long ms, Pointer error);
        int pawl_acquire_permits(Pointer lock, int permits, long ms, Pointer error);
        int pawl_release(Pointer lock, Pointer error);
        int pawl_release_shared(Pointer lock, Pointer error);
        int pawl_cancel(Pointer lock);
        int pawl_on_loss(Pointer lock, Loss fn, Pointer data, Pointer error);
    }

    static final Calls CALLS = Native.load(System.getProperty("libpawl"), Calls.class);
    static final long FOREVER = Long.MAX_VALUE;
    static final int TASK = 1, EHELD = -10, ETIMEOUT = -11, EDEADLK = -13, ECANCELED = -14, ECLOSED = -15;

    static final class Failure extends Exception {
        final int code;

        Failure(int code, Pointer error) {
            super(error.getString(4));
            this.code = code;
        }
    }

    static Memory error() {
        return new Memory(4 + 512);
    }

    static int check(int code, Pointer error) throws Failure {
        if (code < 0)
            throw new Failure(code, error);
        return code;
    }

    /* ---- Sessions ---- */

    private static final Map<CuratorFramework, Pawl> sessions = new WeakHashMap<>();

    static synchronized Pawl of(CuratorFramework client) {
        return sessions.computeIfAbsent(client, key -> new Pawl(key));
    }

    private final CuratorFramework framework;
    private Map<String, Pointer> clients = new HashMap<>();

    private Pawl(CuratorFramework client) {
        framework = client;
        client.getConnectionStateListenable().addListener((of, state) -> {
            if (state == ConnectionState.LOST)
                close();
        });
        client.getCuratorListenable().addListener((of, event) -> {
            if (event.getType() == CuratorEventType.CLOSING)
                close();
        });
    }

    private void close() {
        Map<String, Pointer> old;
        synchronized (this) {
            old = clients;
            clients = new HashMap<>();
        }
        for (Pointer client : old.values())
            new Thread(() -> CALLS.pawl_close(client)).start();
    }

    /* The client for locks in the directory of this path. */
    synchronized Pointer client(String path) throws Failure {
        String base = ZKPaths.getPathAndNode(path).getPath();
        Pointer client = clients.get(base);
        if (client == null) {
            PointerByReference opened = new PointerByReference();
            Memory error = error();
            String hosts = framework.getZookeeperClient().getCurrentConnectionString();
            check(CALLS.pawl_open("zk://" + hosts + base, null, opened, error), error);
            client = opened.getValue();
            clients.put(base, client);
        }
        return client;
    }

    static String path(CuratorFramework client, String path) {
        String namespace = client.getNamespace();
        return namespace == null || namespace.isEmpty() ? path : "/" + namespace + path;
    }

    /* ---- Waiting that an interrupt ends, and that outlives a session ---- */

    interface Make {
        Pointer handle(Pointer client, String name, Pointer error) throws Failure;
    }

    interface Acquire {
        int by(Pointer handle, long ms, Pointer error);
    }

    /* Returns the handle that holds; null: not in time. With `handle` it is entered again. */
    Pointer acquire(String path, Pointer handle, long ms, Make make, Acquire acquire) throws Exception {
        long end = ms == FOREVER ? FOREVER : System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        for (;;) {
            Memory error = error();
            Pointer tried = handle != null ? handle : make.handle(client(path), ZKPaths.getNodeFromPath(path), error);
            long left = end == FOREVER ? FOREVER : Math.max(0, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()));
            int code = interruptibly(tried, left, error, acquire);
            if (code == 0)
                return tried;
            if (handle == null)
                CALLS.pawl_lock_free(tried);
            if (code == EHELD || code == ETIMEOUT || code == EDEADLK)
                return null;
            if (code == ECANCELED)
                throw new InterruptedException();
            if (code != ECLOSED || handle != null)
                throw new Failure(code, error);
        }
    }

    private static int interruptibly(Pointer handle, long ms, Pointer error, Acquire acquire) throws InterruptedException {
        Thread caller = Thread.currentThread();
        Thread watch = new Thread(() -> {
            try {
                while (!caller.isInterrupted())
                    Thread.sleep(20);
                CALLS.pawl_cancel(handle);
            } catch (InterruptedException over) {
                return;
            }
        });
        if (caller.isInterrupted())
            throw new InterruptedException();
        watch.setDaemon(true);
        watch.start();
        int code = acquire.by(handle, ms, error);
        watch.interrupt();
        watch.join(); // so that it does not cancel the next one
        return code;
    }
}
