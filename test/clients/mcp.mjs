// Uses an MCP server with the official TypeScript client, and prints what it
// got, as JSON: node mcp.mjs http URL, or node mcp.mjs stdio COMMAND ARGUMENT...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [kind, target, ...args] = process.argv.slice(2);
const token = process.env.TOKEN;
const transport =
  kind === 'stdio'
    ? new StdioClientTransport({ command: target, args })
    : new StreamableHTTPClientTransport(new URL(target), {
        requestInit: token ? { headers: { Authorization: `Bearer ${token}` } } : {},
      });
const client = new Client({ name: 'plughost-test', version: '1.0.0' });
await client.connect(transport);
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
await client.ping();
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
