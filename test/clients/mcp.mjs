// Uses an MCP server with the official TypeScript client, and prints what it
// got, as JSON: node mcp.mjs ERA http URL, or node mcp.mjs ERA stdio COMMAND
// ARGUMENT... ERA is legacy, for the client that initializes a session, or
// modern, for the one of 2026-07-28.
import * as modern from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';
import * as legacy from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const eras = {
  legacy: {
    connect: () => new legacy.Client({ name: 'plughost-test', version: '1.0.0' }),
    stdio: StdioClientTransport,
    http: StreamableHTTPClientTransport,
  },
  modern: {
    connect: () =>
      new modern.Client(
        { name: 'plughost-test', version: '1.0.0' },
        { versionNegotiation: { mode: { pin: '2026-07-28' } } },
      ),
    stdio: ModernStdio,
    http: modern.StreamableHTTPClientTransport,
  },
};

const [era, kind, target, ...args] = process.argv.slice(2);
const token = process.env.TOKEN;
const client = eras[era].connect();
await client.connect(
  kind === 'stdio'
    ? new eras[era].stdio({ command: target, args })
    : new eras[era].http(new URL(target), {
        requestInit: token ? { headers: { Authorization: `Bearer ${token}` } } : {},
      }),
);
const { tools } = await client.listTools();
const prefix = tools.some((tool) => tool.name === 'now') ? '' : 'clock__';
const { resources } = await client.listResources();
const read = await client.readResource({ uri: 'clock://zones' });
const { prompts } = await client.listPrompts();
const call = await client.callTool({ name: `${prefix}now`, arguments: { zone: 'UTC' } });
const failed = await client.callTool({ name: `${prefix}now`, arguments: { zone: 'Nowhere' } });
const unknown = await client.callTool({ name: 'nope' }).then(
  (result) => (result.isError ? 'refused' : 'called'),
  () => 'refused',
);
if (era === 'legacy') await client.ping();
await client.close();
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    resources: resources.map((resource) => resource.uri),
    zones: read.contents[0].text.includes('\nEurope/London\n'),
    prompts: prompts.map((prompt) => prompt.name),
    zone: call.structuredContent?.zone,
    failed: failed.isError,
    unknown,
  }),
);
