// Discovers an A2A agent as a client of A2A 1.0, does with it all that such
// clients do, and prints what came of it as JSON.
//
// usage: a2a.mjs URL BINDING QUESTION UNCLEAR
//
// URL is the agent's; its card is looked up below it. BINDING is JSONRPC or
// HTTP+JSON. The agent can answer QUESTION, and asks back for UNCLEAR.

import { randomUUID } from 'node:crypto';
import { CancelTaskRequest, GetTaskRequest, ListTasksRequest, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';

const [url, binding, question, unclear] = process.argv.slice(2);
if (!unclear) {
  console.error('usage: a2a.mjs URL BINDING QUESTION UNCLEAR');
  process.exit(2);
}
const options = () => ({ signal: AbortSignal.timeout(60_000) });
const message = (text) =>
  SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }] } });
const taskOf = (result) => Task.toJSON(result.payload?.value ?? result.task ?? result);

const factory = new ClientFactory({
  transports: [binding === 'JSONRPC' ? new JsonRpcTransportFactory() : new RestTransportFactory()],
});
// The card's path is relative: without the slash it would replace the URL's
// last part.
const client = await factory.createFromUrl(url + '/');
const card = await client.getAgentCard();

const sent = taskOf(await client.sendMessage(message(question), options()));
const events = [];
for await (const event of client.sendMessageStream(message(question), options())) {
  events.push(StreamResponse.toJSON(event));
}
const waiting = taskOf(await client.sendMessage(message(unclear), options()));
const got = Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id: waiting.id }), options()));
const canceled = Task.toJSON(await client.cancelTask(CancelTaskRequest.fromJSON({ id: waiting.id }), options()));
const listed = await client.listTasks(ListTasksRequest.fromJSON({}), options());
let refused = '';
try {
  await client.getTask(GetTaskRequest.fromJSON({ id: 'none' }), options());
} catch (error) {
  refused = String(error.message);
}

const textOf = (artifacts) => artifacts.flatMap((a) => a.parts.map((p) => p.text)).join('');
console.log(
  JSON.stringify({
    version: client.protocolVersion,
    card: card.name,
    urls: card.supportedInterfaces.map((i) => i.url),
    sent: textOf(sent.artifacts),
    states: events.map((e) => (e.task ?? e.statusUpdate)?.status.state).filter(Boolean),
    streamed: textOf(events.filter((e) => e.artifactUpdate).map((e) => e.artifactUpdate.artifact)),
    got: got.status.state,
    canceled: canceled.status.state,
    listed: listed.tasks.length,
    refused,
  }),
);
