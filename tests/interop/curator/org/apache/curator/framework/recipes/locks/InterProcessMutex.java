/* SPDX-License-Identifier: Apache-2.0 */
package org.apache.curator.framework.recipes.locks;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.PointerByReference;
import java.util.Collection;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;

public class InterProcessMutex implements InterProcessLock, Revocable<InterProcessMutex> {
    private final CuratorFramework client;
    private final String path;
    private final Threads threads;
    private final boolean shared;
    private final String lockName;
    private volatile String node;
    private volatile Pawl.Loss loss; // it must live as long as it may be called

    public InterProcessMutex(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
        shared = false;
        lockName = "lock-";
        threads = new Threads(client, path, this::make);
    }

    public InterProcessMutex(CuratorFramework client, String path, LockInternalsDriver driver) {
        throw new UnsupportedOperationException("how nodes are made is not a user's business in pawl");
    }

    InterProcessMutex(CuratorFramework client, String path, Threads threads, boolean shared) {
        this.client = client;
        this.path = path;
        this.threads = threads;
        this.shared = shared;
        lockName = shared ? "__READ__" : "__WRIT__";
    }

    private Pointer make(Pointer pawl, String name, Pointer error) throws Pawl.Failure {
        PointerByReference made = new PointerByReference();
        Pawl.check(Pawl.CALLS.pawl_mutex_new(pawl, name, Pawl.TASK, made, error), error);
        if (loss != null)
            Pawl.check(Pawl.CALLS.pawl_on_loss(made.getValue(), loss, null, error), error);
        return made.getValue();
    }

    @Override
    public void acquire() throws Exception {
        acquire(0, null);
    }

    @Override
    public boolean acquire(long time, TimeUnit unit) throws Exception {
        if (!threads.acquire(shared, time, unit))
            return false;
        if (this instanceof InterProcessReadWriteLock.WriteLock) // the only one that is asked for its node
            node = getParticipantNodes().iterator().next();
        return true;
    }

    @Override
    public void release() throws Exception {
        threads.release(shared);
    }

    @Override
    public boolean isAcquiredInThisProcess() {
        return threads.any(shared);
    }

    public boolean isOwnedByCurrentThread() {
        return threads.mine(shared);
    }

    public Collection<String> getParticipantNodes() throws Exception {
        Collection<String> nodes = LockInternals.getParticipantNodes(client, path, lockName, new StandardLockInternalsDriver());
        return nodes.stream().filter(node -> node.contains(lockName)).collect(Collectors.toList());
    }

    @Override
    public void makeRevocable(RevocationListener<InterProcessMutex> listener) {
        makeRevocable(listener, Runnable::run);
    }

    @Override
    public void makeRevocable(RevocationListener<InterProcessMutex> listener, Executor executor) {
        loss = (lock, state, token, why, data) -> {
            if (state == 3)
                executor.execute(() -> listener.revocationRequested(this));
        };
    }

    protected byte[] getLockNodeBytes() {
        return null;
    }

    protected String getLockPath() {
        return node;
    }
}
