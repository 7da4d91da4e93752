// A plughost plugin in JavaScript, as docs/plugins/protocol.md specifies it.
//
// index.mjs shakes hands and serves what the host asks for, life.mjs knows what
// is in hand, tunnel.mjs carries MCP sessions over gRPC, http.mjs serves MCP on
// the service's port, log.mjs writes what the host takes apart, and server.mjs
// is the MCP server, which knows nothing of all that.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { serveHTTP } from './http.mjs';
import { coded, Life } from './life.mjs';
import { configSchema, createServer, name, version } from './server.mjs';

// What go-plugin and plughost agree on.
const cookie = ['PLUGHOST_PLUGIN_COOKIE', 'ba4cfd8c-0d58-4c54-9f0b-2f6a3f0bd7c1'];
const coreProtocol = 1;
const pluginProtocol = 1;

if (process.env[cookie[0]] === cookie[1]) {
  await servePlugin();
} else {
  // By hand it is a plain MCP server.
  await createServer({}).connect(new StdioServerTransport());
}

async function servePlugin() {
  const life = new Life();
  watchLifeline(life);
  process.on('SIGTERM', () => life.end());
  process.on('SIGINT', () => {}); // it is for the host, which then ends us

  const dir = process.env.PLUGHOST_INSTANCE_DIR;
  const server = new grpc.Server({ 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 });
  const proto = grpc.loadPackageDefinition(protoLoader.loadSync(protoFile(), { longs: Number, enums: String, defaults: true }));
  server.addService(proto.plughost.v1.Plugin.service, pluginService(life));
  server.addService(proto.plughost.v1.MCP.service, { Session: (stream) => life.session(stream) });

  const port = process.env.PLUGHOST_PORT;
  if (port) {
    // Before the handshake: a plugin that cannot have its port is never ready.
    await serveHTTP(Number(port), life);
  }
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR, 'plugin.sock');
  await listen(server, `unix:${socket}`, credentials(dir));
  console.log(`${coreProtocol}|${pluginProtocol}|unix|${socket}|grpc|`);
}

function protoFile() {
  return fileURLToPath(new URL('../../shared/proto/plughost/v1/plugin.proto', import.meta.url));
}

// credentials are those of mutual TLS: only the host is let in.
function credentials(dir) {
  const read = (file) => fs.readFileSync(path.join(dir, file));
  return grpc.ServerCredentials.createSsl(read('ca.pem'), [{ cert_chain: read('cert.pem'), private_key: read('key.pem') }], true);
}

function listen(server, address, creds) {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, creds, (err) => (err ? reject(err) : resolve()));
  });
}

// watchLifeline notices the end of the host: the end of file of a pipe whose
// other end only the host holds.
function watchLifeline(life) {
  const fd = Number(process.env.PLUGHOST_LIFELINE);
  if (!fd) return;
  // Not a stream of fs: its thread would be in read(2), and process.exit waits
  // for it.
  const pipe = new net.Socket({ fd, readable: true, writable: false });
  pipe.on('error', () => life.end());
  pipe.on('close', () => life.end());
  pipe.resume();
}

// pluginService is plughost.v1.Plugin.
function pluginService(life) {
  const answer = (method) => (call, callback) => {
    Promise.resolve()
      .then(() => method(call.request))
      .then(
        (response) => callback(null, response),
        (err) => callback({ code: err.code ?? grpc.status.INTERNAL, details: err.message }),
      );
  };
  return {
    Describe: answer(() => ({
      kind: 'KIND_MCP', name, version, sdk: `node ${process.version}`, configSchema: Buffer.from(JSON.stringify(configSchema)),
    })),
    Configure: answer(({ config }) => life.configure(JSON.parse(config.toString()))),
    Health: answer(() => (life.draining ? { status: 'STATUS_DRAINING', reason: 'it finishes what it has begun' } : { status: 'STATUS_SERVING' })),
    Drain: answer(() => life.drain()),
    Adopt: answer(() => {
      throw coded(grpc.status.FAILED_PRECONDITION, 'this plugin ends with its host');
    }),
  };
}
