;; A sampler whose every answer is its configuration: 64 bytes of results, 256 of answers, 512 of candidates, 512 of history,
;; 64 of errors, 4,100 of log, and the status that it returns.
(func (export "step") (param i32) (result i32)
  (memory.copy (i32.const 20992) (i32.const 65536) (i32.const 64))
  (memory.copy (i32.const 49152) (i32.const 65600) (i32.const 256))
  (memory.copy (i32.const 53248) (i32.const 65856) (i32.const 512))
  (memory.copy (i32.const 21504) (i32.const 66368) (i32.const 512))
  (memory.copy (i32.const 10240) (i32.const 66880) (i32.const 64))
  (memory.copy (i32.const 57344) (i32.const 66944) (i32.const 4100))
  (i32.load (i32.const 71044)))
