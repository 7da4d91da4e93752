// Does the same as a2a.mjs as a client of A2A 0.3.
//
// usage: a2a-legacy.mjs URL BINDING QUESTION UNCLEAR

import { randomUUID } from 'node:crypto';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from 'a2a-js-sdk-0.3/client';

const [url, binding, question, unclear] = process.argv.slice(2);
if (!unclear) {
  console.error('usage: a2a-legacy.mjs URL BINDING QUESTION UNCLEAR');
  process.exit(2);
}
const options = () => ({ signal: AbortSignal.timeout(60_000) });
const message = (text) => ({
  message: { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }] },
});

const factory = new ClientFactory({
  transports: [binding === 'JSONRPC' ? new JsonRpcTransportFactory() : new RestTransportFactory()],
});
const client = await factory.createFromUrl(url + '/');
const card = await client.getAgentCard();

const sent = await client.sendMessage(message(question), options());
const events = [];
for await (const event of client.sendMessageStream(message(question), options())) {
  events.push(event);
}
const waiting = await client.sendMessage(message(unclear), options());
const got = await client.getTask({ id: waiting.id }, options());
const canceled = await client.cancelTask({ id: waiting.id }, options());
let refused = '';
try {
  await client.getTask({ id: 'none' }, options());
} catch (error) {
  refused = String(error.message);
}

const textOf = (artifacts) => artifacts.flatMap((a) => a.parts.map((p) => p.text)).join('');
console.log(
  JSON.stringify({
    version: card.protocolVersion,
    card: card.name,
    urls: [card.url, ...card.additionalInterfaces.map((i) => i.url)],
    sent: textOf(sent.artifacts),
    states: events.filter((e) => e.status).map((e) => e.status.state),
    streamed: textOf(events.filter((e) => e.kind === 'artifact-update').map((e) => e.artifact)),
    got: got.status.state,
    canceled: canceled.status.state,
    refused,
  }),
);
