;; expect: 1.9
;; role: sampler
(global (export "step") i32 (i32.const 0))
