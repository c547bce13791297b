;; expect: 1.15
;; role: sampler
(func (export "init") (result i32) (i32.const -0x40000002))
(func (export "layout") (result i32) unreachable)
