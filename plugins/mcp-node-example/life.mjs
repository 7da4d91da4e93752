import grpc from '@grpc/grpc-js';
import { log } from './log.mjs';
import { createServer, faultsOf } from './server.mjs';
import { TunnelTransport } from './tunnel.mjs';

// How long work in flight is waited for when the plugin ends by itself.
const drainBound = 10_000;

// coded is an error with a status of gRPC.
export function coded(code, message) {
  return Object.assign(new Error(message), { code });
}

// Life is what a plugin has in hand, from its configuration to its end.
export class Life {
  draining = false;
  config = null;
  #inFlight = 0;
  #idle = [];

  configure(config) {
    if (this.config) throw coded(grpc.status.FAILED_PRECONDITION, 'the plugin is configured already');
    const faults = faultsOf(config);
    if (faults.length === 0) this.config = config;
    return { faults };
  }

  // begin claims a place for one piece of work; false means that it is to be
  // refused.
  begin() {
    if (this.draining) return false;
    this.#inFlight++;
    return true;
  }

  done() {
    this.#inFlight--;
    if (this.#inFlight === 0) this.#idle.splice(0).forEach((resolve) => resolve());
  }

  // drain takes no new work, and resolves when nothing is in flight.
  async drain() {
    this.draining = true;
    if (this.#inFlight > 0) await new Promise((resolve) => this.#idle.push(resolve));
    return {};
  }

  session(stream) {
    createServer(this.config)
      .connect(new TunnelTransport(stream, this))
      .catch((err) => log('error', 'cannot open a session', { error: err.message }));
  }

  async end() {
    await Promise.race([this.drain(), new Promise((resolve) => setTimeout(resolve, drainBound))]);
    process.exit(0);
  }
}
