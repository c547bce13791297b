;; expect: 1.9
;; role: sampler
(global (export "vocabulary") i32 (i32.const 65536))
