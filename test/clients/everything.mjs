// Uses the server "everything" with the official TypeScript client, and prints
// what it got, as JSON: node everything.mjs URL
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const client = new Client({ name: 'plughost-test', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));

const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { prompts } = await client.listPrompts();
const echo = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });

const progress = [];
await client.callTool({ name: 'trigger-long-running-operation', arguments: { duration: 0.4, steps: 4 } }, undefined, {
  onprogress: ({ progress: done, total }) => progress.push(`${done}/${total}`),
});

// Cancelled when its first progress shows that it is under way.
const cancelling = new AbortController();
const cancelled = await client
  .callTool({ name: 'trigger-long-running-operation', arguments: { duration: 600, steps: 6000 } }, undefined, {
    signal: cancelling.signal,
    onprogress: () => cancelling.abort(),
  })
  .then(
    () => false,
    () => true,
  );
const again = await client.callTool({ name: 'echo', arguments: { message: 'again' } });
await client.close();
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    resources: resources.length,
    prompts: prompts.length,
    echo: echo.content[0].text,
    progress,
    cancelled,
    again: again.content[0].text,
  }),
);
