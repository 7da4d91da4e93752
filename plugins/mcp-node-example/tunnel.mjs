// TunnelTransport carries one MCP session over a stream of plughost.v1.MCP. It
// is a Transport of the MCP SDK.
export class TunnelTransport {
  #stream;
  #life;
  #open = new Set(); // ids of the host's requests that are in flight

  constructor(stream, life) {
    this.#stream = stream;
    this.#life = life;
  }

  async start() {
    this.#stream.on('data', (frame) => this.#receive(frame));
    this.#stream.on('end', () => this.close());
    this.#stream.on('cancelled', () => this.close());
    this.#stream.on('error', () => this.close());
  }

  #receive(frame) {
    const message = JSON.parse(frame.message.toString());
    if (message.method !== undefined && message.id !== undefined) {
      if (!this.#life.begin()) {
        this.#write({ jsonrpc: '2.0', id: message.id, error: { code: -32000, message: 'the server is shutting down' } });
        return;
      }
      this.#open.add(message.id);
    }
    this.onmessage?.(message);
  }

  async send(message, options) {
    this.#write(message, options?.relatedRequestId);
    if (message.method === undefined && this.#open.delete(message.id)) this.#life.done();
  }

  // The host is told in whose course a message is sent, so that it reaches the
  // client on the stream of that request.
  #write(message, request) {
    this.#stream.write({ message: Buffer.from(JSON.stringify(message)), request });
  }

  async close() {
    for (const id of this.#open) {
      this.#open.delete(id);
      this.#life.done();
    }
    this.#stream.end();
    const onclose = this.onclose;
    this.onclose = undefined; // once
    onclose?.();
  }
}
