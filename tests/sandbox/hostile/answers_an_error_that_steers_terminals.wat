;; expect: error
;; role: sampler
(data (i32.const 10240) "\1b[2J\ff\ff no \0d\0a\e2\80\ae")
(func (export "step") (param i32) (result i32)
  (i32.const -0x40000000))
