;; expect: 1.9
;; role: sampler
(global (export "sealhost.global.0") i32 (i32.const 0))
