// SPDX-License-Identifier: Apache-2.0
// node-redlock on one server or on several, with as many tries as it takes; all else as it comes. It polls: 200 ms, with jitter.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const require = createRequire(process.env.MODULES + "/");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");
const { version } = JSON.parse(readFileSync(process.env.MODULES + "/node_modules/redlock/package.json"));

const servers = process.argv[2].split(",").map((address) => address.split(":"));
const LEASE_MS = 10000;
const say = (document) => process.stdout.write(JSON.stringify(document) + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => Number(process.hrtime.bigint());
const connect = () => servers.map(([host, port]) => new Redis({ host, port: Number(port) }));

function open(name) {
  const connections = connect();
  const redlock = new Redlock(connections, { retryCount: -1 });
  redlock.on("error", () => {});
  const close = () => Promise.all(connections.map((connection) => connection.quit()));
  return { acquire: () => redlock.acquire([name], LEASE_MS), close };
}

function tell(rate, times) {
  times.sort((a, b) => a - b);
  const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))] / 1000;
  return times.length ? { rate, p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999) } : { rate };
}

async function alone(ms) {
  const client = open("pawl-bench-peer-alone");
  const times = [];
  const pair = async () => (await client.acquire()).release();
  for (const end = now() + ms * 250000; now() < end; ) await pair();
  const begin = now();
  let last = begin;
  while (last < begin + ms * 1000000) {
    const before = last;
    await pair();
    last = now();
    times.push(last - before);
  }
  await client.close();
  return tell((times.length * 1e9) / (last - begin), times);
}

async function turns(number, ms) {
  const clients = Array.from({ length: number }, () => open("pawl-bench-peer-turns"));
  const state = { waiting: 0, owner: -1, released: 0, changes: 0, counts: false, stop: false };
  const times = [];
  const contend = async (client, self) => {
    while (!state.stop) {
      state.waiting++;
      const lock = await client.acquire();
      state.waiting--;
      if (state.owner !== self) {
        state.owner = self;
        state.changes++;
        if (state.counts && state.released) times.push(now() - state.released);
      }
      while (state.waiting === 0 && !state.stop) await new Promise(setImmediate);
      state.released = now();
      await lock.release();
    }
  };
  const all = clients.map(contend);
  await sleep(ms / 4);
  state.counts = true;
  const [changes, begin] = [state.changes, now()];
  await sleep(ms);
  const rate = ((state.changes - changes) * 1e9) / (now() - begin);
  state.stop = true;
  await Promise.all(all);
  for (const client of clients) await client.close();
  return tell(rate, times);
}

async function answer([workload, ...numbers]) {
  const [first, second] = numbers.map(Number);
  if (workload === "alone") return alone(first);
  if (workload === "turns") return turns(first, second);
  return { missing: "a program of node's has no threads that could share a client" };
}

async function clean() {
  for (const connection of connect()) {
    for (const key of await connection.keys("*pawl-bench-peer*")) await connection.del(key);
    await connection.quit();
  }
}

say({ peer: "node-redlock", version });
for await (const line of createInterface({ input: process.stdin })) {
  try {
    say(await answer(line.split(" ")));
  } catch (error) {
    say({ missing: String(error) });
  }
}
await clean();
