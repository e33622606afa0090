/* SPDX-License-Identifier: Apache-2.0 */
package org.apache.curator.framework.recipes.locks;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.utils.ZKPaths;

public class InterProcessSemaphoreV2 {
    static volatile CountDownLatch debugAcquireLatch;
    static volatile CountDownLatch debugFailedGetChildrenLatch;
    volatile CountDownLatch debugWaitLatch;

    private final CuratorFramework client;
    private final String path, full;
    private final int limit;

    public InterProcessSemaphoreV2(CuratorFramework client, String path, int limit) {
        this.client = client;
        this.path = path;
        this.limit = limit;
        full = Pawl.path(client, path);
    }

    public InterProcessSemaphoreV2(CuratorFramework client, String path, SharedCountReader count) {
        throw new UnsupportedOperationException("the limit of a semaphore of pawl's does not change");
    }

    private Pointer make(Pointer pawl, String name, Pointer error) throws Pawl.Failure {
        PointerByReference made = new PointerByReference();
        Pawl.check(Pawl.CALLS.pawl_semaphore_new(pawl, name, limit, Pawl.TASK, made, error), error);
        return made.getValue();
    }

    private static Lease lease(Pointer handle, boolean all) {
        AtomicBoolean open = new AtomicBoolean(true);
        return new Lease() {
            @Override
            public void close() {
                if (all && open.getAndSet(false))
                    Pawl.CALLS.pawl_lock_free(handle); // it releases, too
            }

            @Override
            public byte[] getData() {
                return null;
            }

            @Override
            public String getNodeName() {
                return null;
            }
        };
    }

    public Lease acquire() throws Exception {
        return acquire(0, null);
    }

    public Lease acquire(long time, TimeUnit unit) throws Exception {
        Collection<Lease> leases = acquire(1, time, unit);
        return leases == null ? null : leases.iterator().next();
    }

    public Collection<Lease> acquire(int count) throws Exception {
        return acquire(count, 0, null);
    }

    public Collection<Lease> acquire(int count, long time, TimeUnit unit) throws Exception {
        CountDownLatch waits = debugWaitLatch;
        if (waits != null)
            waits.countDown();
        Pointer handle = Pawl.of(client).acquire(full, null, unit == null ? Pawl.FOREVER : unit.toMillis(time), this::make,
            (lock, ms, error) -> Pawl.CALLS.pawl_acquire_permits(lock, count, ms, error));
        if (handle == null)
            return null;
        List<Lease> leases = new ArrayList<>();
        for (int i = 0; i < count; i++)
            leases.add(lease(handle, i == 0)); // they are returned together
        return leases;
    }

    public void returnLease(Lease lease) {
        try {
            lease.close();
        } catch (java.io.IOException never) {
            throw new IllegalStateException(never);
        }
    }

    public void returnAll(Collection<Lease> leases) {
        leases.forEach(this::returnLease);
    }

    public Collection<String> getParticipantNodes() throws Exception {
        return client.getChildren().forPath(ZKPaths.makePath(path, "leases"));
    }
}
