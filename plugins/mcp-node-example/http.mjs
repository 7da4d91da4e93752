import http from 'node:http';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createServer } from './server.mjs';

// serveHTTP serves MCP on the service's port, on loopback alone, to clients that
// need no session. Web pages are kept out: a request must be for this address,
// and from no other origin.
export function serveHTTP(port, life) {
  const address = `127.0.0.1:${port}`;
  const server = http.createServer(async (request, response) => {
    const { host, origin } = request.headers;
    if ((host !== address && host !== `localhost:${port}`) || (origin && origin !== `http://${host}`)) {
      response.writeHead(403).end();
      return;
    }
    if (request.url !== '/mcp') {
      response.writeHead(404).end();
      return;
    }
    if (!life.config || !life.begin()) {
      response.writeHead(503).end();
      return;
    }
    response.on('close', () => life.done());
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await createServer(life.config).connect(transport);
    await transport.handleRequest(request, response);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
}
