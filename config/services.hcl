# The sample that `make run` runs. Paths are relative to this file.

host {
  # Where the gateway listens. Off loopback it needs tokens and TLS: see
  # docs/gateway.md.
  listen = "127.0.0.1:7433"
}

# An MCP server that is built as a plugin.
service "mcp" "clock" {
  # One element per argument; no shell is involved.
  command = ["../bin/mcp-example"]

  # The plugin finds the number in PLUGHOST_PORT, and the host guards it.
  port = 8101

  # What the plugin itself can be configured with; it is checked against the
  # schema that the plugin declares.
  config {
    timezone = "UTC"
  }
}

# An A2A agent.
service "agent" "assistant" {
  command = ["../bin/agent-example"]
  port    = 8102

  # It starts when the clock is ready.
  depends_on = [service.mcp.clock]

  # What it may call through the host, as SERVICE/TOOL; without this, nothing.
  tools {
    allow = ["clock/*"]
  }

  # With a model it answers other questions than those about time.
  # config {
  #   model {
  #     base_url = "https://api.openai.com/v1"
  #     name     = "gpt-5-mini"
  #     api_key  = env("OPENAI_API_KEY")
  #   }
  # }
}
