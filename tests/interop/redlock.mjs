// SPDX-License-Identifier: Apache-2.0
//
// node-redlock and pawl exclude each other, both ways: on one server (pawl with layout=plain) or on several.
import {createRequire} from 'node:module';
import {spawn, spawnSync} from 'node:child_process';
import {once} from 'node:events';
import assert from 'node:assert';

const require = createRequire(process.env.MODULES + '/');
const Redis = require('ioredis');
const Redlock = require('redlock').default;
const {PAWL, PAWL_URL, PORTS} = process.env;
const servers = PORTS.split(',').map((port) => new Redis(Number(port), '127.0.0.1'));
const redlock = new Redlock(servers, {retryCount: 0});
const patient = new Redlock(servers, {retryCount: 200, retryDelay: 50, retryJitter: 10});
const pawl = (...args) => spawnSync(PAWL, ['run', '-u', PAWL_URL, ...args]).status;

// redlock holds: pawl finds it held, waits, and gets in when it is released.
let lock = await redlock.acquire(['job'], 20000);
assert.equal(pawl('-n', 'job', '--', 'true'), 75);
const waiting = spawn(PAWL, ['run', '-u', PAWL_URL, 'job', '--', 'true']);
await lock.extend(15000);
await lock.release();
assert.equal((await once(waiting, 'exit'))[0], 0);

// pawl holds: redlock finds it held, and gets in afterwards.
const holder = spawn(PAWL, ['run', '-u', PAWL_URL, 'job', '--', 'sh', '-c', 'echo held; sleep 1']);
await once(holder.stdout, 'data');
await assert.rejects(redlock.acquire(['job'], 1000));
lock = await patient.acquire(['job'], 5000);
await lock.release();

// A hold of redlock's that expires.
await redlock.acquire(['job'], 300);
assert.equal(pawl('-w', '10s', 'job', '--', 'true'), 0);
servers.forEach((server) => server.disconnect());
