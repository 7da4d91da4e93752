// Uses the server "everything" with the official TypeScript client, and prints
// what it got, as JSON: node everything.mjs http URL, or node everything.mjs
// stdio COMMAND ARGUMENT...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const client = new Client(
  { name: 'plughost-test', version: '1.0.0' },
  { capabilities: { sampling: {}, elicitation: {} } },
);
client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }));
client.setRequestHandler(CreateMessageRequestSchema, () => ({
  role: 'assistant',
  model: 'test',
  content: { type: 'text', text: 'sampled' },
}));
const [kind, target, ...args] = process.argv.slice(2);
await client.connect(
  kind === 'stdio' ? new StdioClientTransport({ command: target, args }) : new StreamableHTTPClientTransport(new URL(target)),
);

const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { prompts } = await client.listPrompts();
const echo = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });

const asked = await client.callTool({ name: 'trigger-elicitation-request', arguments: {} });
const sampled = await client.callTool({ name: 'trigger-sampling-request', arguments: { prompt: 'p', maxTokens: 10 } });

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
    asked: asked.content[0].text,
    sampled: sampled.content[0].text,
    progress,
    cancelled,
    again: again.content[0].text,
  }),
);
