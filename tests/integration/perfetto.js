// Perfetto's own trace processor, as its UI runs it: requests come in on stdin and answers go out on
// stdout, both one TraceProcessorRpcStream. Needs the folder of a built UI, named first.
"use strict"
const fs = require("fs")
const path = require("path")
const vm = require("vm")

const [folder] = process.argv.slice(2)
const replies = []

// The least of a web worker that the engine asks for. It has a context of its own, as it would not
// run where it finds Node's `process`.
class XMLHttpRequest {
  open(_method, name) {
    this.name = name
  }
  send() {
    this.response = fs.readFileSync(path.join(folder, path.basename(this.name)))
  }
}
const worker = {
  console: { log() {}, warn: console.error, error: console.error },
  location: { href: "http://localhost/engine_bundle.js" },
  performance,
  TextDecoder,
  WorkerGlobalScope: class {},
  XMLHttpRequest,
}
worker.self = worker
vm.createContext(worker)
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker)

const port = { postMessage: (reply) => replies.push(Buffer.from(reply)) }
worker.onmessage({ data: port })
// A promise of the engine's sets it up.
setImmediate(() => {
  const Bytes = vm.runInContext("Uint8Array", worker)
  port.onmessage({ data: new Bytes(fs.readFileSync(0)) })
  fs.writeSync(1, Buffer.concat(replies))
})
