// log writes an entry of the form that hclog gives to them, which the host takes
// apart. Standard output is for the handshake alone.
export function log(level, message, fields = {}) {
  const entry = { '@level': level, '@message': message, '@timestamp': new Date().toISOString(), ...fields };
  process.stderr.write(`${JSON.stringify(entry)}\n`);
}
