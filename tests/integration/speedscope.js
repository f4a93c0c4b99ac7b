// Reads files with the importers of the real speedscope, in a page without a picture: one line of
// JSON a profile. Needs the npm packages speedscope and jsdom in the folder that is named first.
"use strict"
const fs = require("fs")
const path = require("path")
const { TextDecoder, TextEncoder } = require("util")

const [folder, ...files] = process.argv.slice(2)
const modules = path.join(folder, "node_modules")
const { JSDOM, VirtualConsole } = require(path.join(modules, "jsdom"))
const release = path.join(modules, "speedscope", "dist", "release")
const bundle = fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name))
// What it would show goes to us instead.
const shown = /loadFileFromBase64:\((\w+),(\w+)\)=>\{this\.loadProfile\(\(\)=>(\w+\(\1,\2\))\)\}/
const source = fs.readFileSync(path.join(release, bundle), "utf8")
if (!shown.test(source)) throw new Error("this speedscope is not the one that is known here")

const { window } = new JSDOM("<!DOCTYPE html><html><head></head><body></body></html>", {
  runScripts: "outside-only",
  url: "http://localhost/#localProfilePath=/none",
  virtualConsole: new VirtualConsole(),
  pretendToBeVisual: true,
})
Object.assign(window, {
  TextDecoder,
  TextEncoder,
  matchMedia: () => ({ matches: false, addListener() {}, addEventListener() {} }),
  fetch: async () => {
    throw new Error("no network")
  },
})
window.HTMLCanvasElement.prototype.getContext = () => null
window.eval(source.replace(shown, "loadFileFromBase64:($1,$2)=>{window.imported=$3}"))

setTimeout(async () => {
  for (const file of files) {
    window.speedscope.loadFileFromBase64(
      path.basename(file),
      fs.readFileSync(file).toString("base64"),
    )
    const group = await window.imported
    for (const profile of group === null ? [] : group.profiles) {
      const names = new Set()
      profile.forEachFrame((frame) => names.add(frame.name))
      const found = {
        file: path.basename(file),
        name: profile.getName(),
        total: profile.getTotalNonIdleWeight(),
        unit: profile.getWeightUnit(),
        frames: [...names],
      }
      console.log(JSON.stringify(found))
    }
  }
  process.exit(0)
}, 200)
