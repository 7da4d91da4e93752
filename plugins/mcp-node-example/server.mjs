import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { z } from 'zod';

export const name = 'mcp-node-example';
export const version = '1.0.0';

// settings is what the config block of the service can say.
const settings = z.strictObject({
  greeting: z.string().default('Hello').describe('how somebody is greeted'),
});

// configSchema is the same as the JSON Schema that the host is told: of what is
// written, so that nothing with a default is required.
export const configSchema = z.toJSONSchema(settings, { io: 'input' });

// faultsOf says what is wrong with a configuration, without its values.
export function faultsOf(config) {
  const { error } = settings.safeParse(config);
  return (error?.issues ?? []).map(({ path, message }) => ({ path: path.map(String), message }));
}

export function createServer(config) {
  const { greeting } = settings.parse(config);
  const server = new McpServer({ name, version });
  server.registerTool(
    'greet',
    { description: 'Greets somebody.', inputSchema: { name: z.string().describe('who is greeted') } },
    async ({ name }) => ({ content: [{ type: 'text', text: `${greeting}, ${name}!` }] }),
  );
  return server;
}
