// Asks an A2A agent a question and prints what it answers, one event of the
// stream a line, as the JSON of the protocol.
//
// usage: ask.mjs URL QUESTION
//
// URL is the agent's; its card is looked up below it.

import { randomUUID } from 'node:crypto';
import { SendMessageRequest, StreamResponse } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory } from '@a2a-js/sdk/client';

const timeout = 60_000;

const [url, question] = process.argv.slice(2);
if (!url || !question) {
  console.error('usage: ask.mjs URL QUESTION');
  process.exit(2);
}

const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory()] });
// The card's path is relative: without the slash it would replace the URL's
// last part.
const client = await factory.createFromUrl(url.endsWith('/') ? url : url + '/');
const request = SendMessageRequest.fromJSON({
  message: {
    messageId: randomUUID(),
    role: 'ROLE_USER',
    parts: [{ text: question }],
  },
});
for await (const event of client.sendMessageStream(request, { signal: AbortSignal.timeout(timeout) })) {
  console.log(JSON.stringify(StreamResponse.toJSON(event)));
}
